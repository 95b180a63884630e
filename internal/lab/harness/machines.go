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

// Machines are network namespaces that a bridge joins: to the programs in them they are
// machines with one address each, and this process is one more. They are gone with this
// process.
type Machines struct {
	holders []*exec.Cmd // a process each, which keeps the namespace
	cuts    map[[2]int]bool
}

// isolated is set in the environment of a process that has a network of its own.
const isolated = "HARNESS_ISOLATED"

// Isolate runs this program once more, with the same arguments and a network of its own,
// and returns how it ended; done is false where this process is that one already. It needs
// root. The error says that it could not be run, or its exit status.
func Isolate(ctx context.Context) (done bool, err error) {
	if os.Getenv(isolated) != "" {
		return false, ip("link set lo up")
	}
	if os.Getuid() != 0 {
		return true, errors.New("harness: networks of their own need root")
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

// network is the first three parts of each machine's address; this process has the last 100.
const network = "10.99.0."

// NewMachines makes n machines, 1 and up. Isolate comes before. The error is of the
// program ip(8).
func NewMachines(n int) (m *Machines, err error) {
	m = &Machines{cuts: map[[2]int]bool{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := command("mount", "--make-rprivate", "/"); err != nil { // nobody outside sees the disks
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

// Inside returns the words before a command that run it on a machine.
func (m *Machines) Inside(number int) []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", m.holders[number-1].Process.Pid)}
}

// Cut loses every packet from one machine to another, until Heal.
func (m *Machines) Cut(from, to int) error {
	if m.cuts[[2]int{from, to}] {
		return nil
	}
	m.cuts[[2]int{from, to}] = true
	return m.ip(from, "route add blackhole "+m.Address(to)+"/32")
}

// Part loses every packet between two machines, until Heal.
func (m *Machines) Part(a, b int) error { return errors.Join(m.Cut(a, b), m.Cut(b, a)) }

// Heal ends all cuts.
func (m *Machines) Heal() (err error) {
	for cut := range m.cuts {
		err = errors.Join(err, m.ip(cut[0], "route del blackhole "+m.Address(cut[1])+"/32"))
	}
	clear(m.cuts)
	return err
}

// Close ends the machines. What runs on them ends by itself.
func (m *Machines) Close() {
	for _, holder := range m.holders {
		_ = holder.Process.Kill() // its end is all that matters
		_ = holder.Wait()
	}
	m.holders = nil
	_ = ip("link delete outcry") // or it is gone with this process
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

// command runs a program that says nothing if all is well.
func command(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("harness: %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}
