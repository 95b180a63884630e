package main

import "outcry/cmd/internal/cli"

// commands returns the table of commands, in the order of help.
func commands() []cli.Command {
	return []cli.Command{
		{Name: "grade", Reaches: cli.Foreign, Summary: "test and grade a server of this protocol", Text: gradeText,
			Examples: []string{"grade --start ./server", "grade --addr localhost:12345 --html report.html",
				"grade --many submissions --csv grades.csv --profile homework.toml"}, Prepare: prepareGrade},
		{Name: "class new", Reaches: cli.XMLSide, Summary: "open an account and make a token for each student of a class",
			Arguments: []cli.Argument{{Name: "N", Help: "students"}}, Text: classNewText,
			Examples: []string{"class new 30 --cash 10000 --shares SPY=100"}, Prepare: prepareClassNew},
		{Name: "class reset", Summary: "reset the exchange of a class, and keep the old one as a backup",
			Text: classResetText, Examples: []string{"class reset"}, Prepare: prepareClassReset},
		{Name: "demo", Reaches: cli.XMLSide, Summary: "run a market of bots to look at and trade against",
			Text: demoText, Examples: []string{"demo --rate 50 --duration 10m"}, Prepare: prepareDemo},
		{Name: "bench run", Reaches: cli.XMLSide, Summary: "measure how fast a server of the protocol answers orders",
			Text: benchText, Examples: []string{"bench run --duration 30s", "bench run --addr a,b,c --rate 500 --json",
				"bench run --addr localhost:9000 --beside --duration 2s",
				"bench run --addr localhost:9000 --beside --experiment mix5"}, Prepare: prepareBench},
		{Name: "bench echo", Summary: "run an echo server, which other servers are compared with",
			Text:     "It prints its address, and stops when its standard input ends.",
			Examples: []string{"bench echo --listen 127.0.0.1:9001"}, Prepare: prepareBenchEcho},
	}
}
