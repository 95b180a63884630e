package door

// Seq returns the number of the newest journal record at the end of the call. All records that the outcomes
// depend on have this number or a lower one.
func (p *Pending) Seq() uint64 { return p.mark.Seq }
