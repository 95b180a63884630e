package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	osuser "os/user"
	"slices"
	"strconv"
	"strings"
)

// userMap is the name of the map in pg_ident.conf.
const userMap = "outcry"

// ownUser is the user as whom root runs Postgres, if that user exists. No other programs run as ownUser.
// Otherwise root uses one of machineUsers, whose other programs can then read and change the data files.
var (
	ownUser      = "outcry" // tests replace it
	machineUsers = []string{"postgres", "nobody", "daemon"}
)

// sayWhoElse logs that Postgres runs as a user that other programs share.
func (c *Cluster) sayWhoElse() {
	if c.as.Credential == nil {
		return
	}
	if name := userName(int(c.as.Credential.Uid)); slices.Contains(machineUsers, name) {
		c.options.Log.Info("the local Postgres runs as a user whose other programs can read and change its files: "+
			"create a user for it, and the next start gives the files to that user",
			"user", name, "make", "useradd --system "+ownUser)
	}
}

// writeAccess writes who may connect, by peer authentication: root, the user of this process, and the user as
// whom Postgres runs, each as role and as superuser. All three can read and change the data files anyway.
func (c *Cluster) writeAccess() error {
	const about = "# outcry writes this file at each start.\n"
	ident := about
	users, err := c.users()
	if err != nil {
		return err
	}
	for _, user := range users {
		for _, as := range []string{role, superuser} {
			ident += identLine(user, as)
		}
	}
	data, err := os.OpenRoot(c.dataDir()) // stay inside the directory: its owner may have created links in it
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer data.Close()
	hba := about + "local all all peer map=" + userMap + "\n"
	err = errors.Join(c.replace(data, "pg_ident.conf", ident), c.replace(data, "pg_hba.conf", hba))
	if err != nil {
		return fmt.Errorf("cluster: set who may connect to %s: %w", c.dataDir(), err)
	}
	return nil
}

// identLine returns the line of the map that lets a user of the machine connect as a role. Names may have any
// characters, and are quoted as Postgres requires.
func identLine(user, as string) string {
	return fmt.Sprintf("%s \"%s\" %s\n", userMap, strings.ReplaceAll(user, `"`, `""`), as)
}

// replace rewrites a file of the data directory, for the user as whom Postgres runs.
func (c *Cluster) replace(data *os.Root, name, content string) error {
	making := name + ".making"
	if err := data.Remove(making); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an interrupted start
		return err
	}
	f, err := data.OpenFile(making, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if uid, gid, other := c.owner(); err == nil && other {
		err = f.Chown(uid, gid)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return data.Rename(making, name)
}

// users returns the names of the users who may connect. It returns an error if the user of this process has no
// name, because Postgres would not let it connect.
func (c *Cluster) users() ([]string, error) {
	self := seenAs(c.as)
	first := userName(self)
	if first == "" {
		return nil, fmt.Errorf("cluster: user %d has no name on this machine, by which the local Postgres knows who "+
			"connects: "+
			"start as a user that has one, or name a database with --database-url", self)
	}
	ids := []int{0}
	if c.as.Credential != nil {
		ids = append(ids, int(c.as.Credential.Uid))
	}
	names := []string{first}
	for _, id := range ids {
		if name := userName(id); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// userName returns a user's name, or "". A program built without the system's own look-up, which Postgres
// uses, falls back to the command id.
func userName(id int) string {
	if u, err := osuser.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	cmd := exec.Command("id", "-un", strconv.Itoa(id))
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
