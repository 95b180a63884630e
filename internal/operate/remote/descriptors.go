package remote

// DescriptorReserve is the number of file descriptors that clients cannot use: 64 for the journal, Postgres
// and the watching of files, 32 for operators and health checks, and 64 for connections over the limit while
// they get their error.
const DescriptorReserve = 160

// ConnectionsWithin returns how many connections to the XML port and to the HTTP side a server may have that
// may open the given number of files. These are the requested numbers, or, so that DescriptorReserve is left,
// smaller ones in the same proportion. The result is at least 1 for each that was requested above 0.
func ConnectionsWithin(files uint64, xml, http int) (int, int) {
	left := uint64(0)
	if files > DescriptorReserve {
		left = files - DescriptorReserve
	}
	all := uint64(xml) + uint64(http)
	if all <= left {
		return xml, http
	}
	of := func(asked int) int { return max(min(asked, 1), int(uint64(asked)*left/all)) }
	return of(xml), of(http)
}
