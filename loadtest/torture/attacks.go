package torture

// attacks are all ways of abuse, by the name of the fault.
var attacks map[string]attack

func allAttacks() map[string]attack {
	return map[string]attack{
		"abuse-frame": {about: "frames whose replies would be many times as large: names of a megabyte, echoed in hundreds of errors",
			auth: true, flags: frameFlags, run: (*runner).abuseFrames},
	}
}
