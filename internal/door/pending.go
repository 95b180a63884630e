package door

// Seq returns the newest record of the log right behind the call: what its outcomes reveal is in the records up to
// there.
func (p *Pending) Seq() uint64 { return p.mark.Seq }
