package remote

// DescriptorReserve is how many file descriptors a server keeps from its clients: for the
// journal, Postgres and what watches files (64), for operators and health checks (32), and
// for connections that are being told that there are too many (64).
const DescriptorReserve = 160

// ConnectionsWithin returns how many connections of the XML port and of the HTTP side a
// server has that may have so many files open: as many as asked for, or less of both, in
// the same proportion, so that DescriptorReserve is left. It returns at least 1 for each
// that was above 0.
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
