package faulty

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
)

// environment is the variable that has the options of a process that Command starts, as JSON.
const environment = "OUTCRY_FAULTY"

// Command returns a shell command that serves on the port in the environment variable PORT. program is an
// executable whose main, or TestMain, calls Child first.
func Command(program string, o Options) (string, error) {
	if err := o.check(); err != nil {
		return "", err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("faulty: %w", err)
	}
	return fmt.Sprintf("%s=%s exec %s", environment, quoted(string(b)), quoted(program)), nil
}

// quoted returns s as a single word of a shell command.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Child returns immediately, unless Command's shell command started this process: then it serves until it is killed.
func Child() {
	text, ok := os.LookupEnv(environment)
	if !ok {
		return
	}
	fmt.Fprintln(os.Stderr, "faulty:", child(text))
	os.Exit(1)
}

func child(text string) error {
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Getenv("PORT")))
	if err != nil {
		return err
	}
	return Serve(l, o)
}
