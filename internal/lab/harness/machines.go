package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Machines are network namespaces joined by a bridge. To the programs inside, each is a machine with one
// address; this process is another machine. The namespaces disappear with this process.
type Machines struct {
	holders []*exec.Cmd // one process for each machine, which keeps its namespace alive
	cuts    map[[2]int]bool
}

// isolated is set in the environment of a process that runs in its own network namespace.
const isolated = "HARNESS_ISOLATED"

// Isolate runs this program again with the same arguments in a separate network namespace, and returns
// how it ended. done is false if this process is already that one. It needs root. The error is the
// failure to run the program, or its exit status.
func Isolate(ctx context.Context) (done bool, err error) {
	if os.Getenv(isolated) != "" {
		return false, ip("link set lo up")
	}
	if os.Getuid() != 0 {
		return true, errors.New("harness: separate networks need root")
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := startApart(cmd); err != nil {
		return true, fmt.Errorf("harness: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	return true, cmd.Wait()
}

// network is the common prefix of the machines' addresses. This process has number 100.
const network = "10.99.0."

// NewMachines makes machines 1 to n. Isolate must be called before. Errors come from the program ip(8).
func NewMachines(n int) (m *Machines, err error) {
	m = &Machines{cuts: map[[2]int]bool{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := command("mount", "--make-rprivate", "/"); err != nil { // the disks stay invisible to other processes
		return m, err
	}
	if err := ip("link add outcry type bridge", "addr add "+network+"100/24 dev outcry",
		"link set outcry up"); err != nil {
		return m, err
	}
	for number := 1; number <= n; number++ {
		holder := exec.Command("sleep", "infinity")
		if err := startApart(holder); err != nil {
			return m, fmt.Errorf("harness: %w", err)
		}
		m.holders = append(m.holders, holder)
		link := fmt.Sprintf("node%d", number)
		err := ip(fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, holder.Process.Pid),
			"link set "+link+" master outcry up")
		if err == nil {
			err = m.ip(number, "link set lo up", "addr add "+m.Address(number)+"/24 dev eth0", "link set eth0 up")
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// Address returns the address of a machine.
func (m *Machines) Address(number int) string { return network + strconv.Itoa(number) }

// Inside returns the command prefix that runs a command on a machine.
func (m *Machines) Inside(number int) []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", m.holders[number-1].Process.Pid)}
}

// Cut drops every packet from one machine to another, until Heal.
func (m *Machines) Cut(from, to int) error {
	if m.cuts[[2]int{from, to}] {
		return nil
	}
	m.cuts[[2]int{from, to}] = true
	return m.ip(from, "route add blackhole "+m.Address(to)+"/32")
}

// Part drops every packet between two machines, until Heal.
func (m *Machines) Part(a, b int) error { return errors.Join(m.Cut(a, b), m.Cut(b, a)) }

// Heal undoes all cuts.
func (m *Machines) Heal() (err error) {
	for cut := range m.cuts {
		err = errors.Join(err, m.ip(cut[0], "route del blackhole "+m.Address(cut[1])+"/32"))
	}
	clear(m.cuts)
	return err
}

// Close removes the machines. Processes on them end by themselves.
func (m *Machines) Close() {
	for _, holder := range m.holders {
		_ = holder.Process.Kill() // only its end matters
		_ = holder.Wait()
	}
	m.holders = nil
	_ = ip("link delete outcry") // it disappears with this process in any case
}

// ip runs ip(8) on a machine.
func (m *Machines) ip(number int, all ...string) error { return ipIn(m.Inside(number), all) }

func ip(all ...string) error { return ipIn(nil, all) }

func ipIn(inside, all []string) error {
	for _, args := range all {
		if err := command(append(append(append([]string(nil), inside...), "ip"), strings.Fields(args)...)...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program that prints nothing on success.
func command(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("harness: %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}
