// Package local runs a Postgres of the server's own, below its data directory,
// for users who have not set one up.
//
//	DIR/data            the data directory of Postgres
//	DIR/data.making-*   an initdb at work, or cut off: the next start removes it
//	DIR/postgres.log    what Postgres has to say, bounded in size
//	DIR/socket          a link to the directory of the Unix socket
//	DIR/lock            locked while a process has the cluster
//
// # Binaries
//
// Installed ones are used first, of the version that made the data directory, else
// the newest. If none fits, some are downloaded once into a cache: of a version whose
// checksum this program has (checksums.go). Root does not run them. If that
// fails too, the error names the package to install.
//
// # Root
//
// Postgres refuses to run as root. As root, it runs as the owner of the data
// directory, or as the user outcry if there is no data yet. Without such a user it is
// postgres, nobody or daemon, whose other programs can then read the data files; once
// there is one it gets their data. Folders above that
// are closed to that user, such as a home of mode 0700, do not matter: the data
// directory is opened here, and Postgres gets the open file and names its data
// directory through /proc/self/fd. Where root cannot become another user, which
// some sandboxes forbid, Postgres runs in a user namespace of its own in which
// root's number looks like an unprivileged one; its files are root's then. The
// first way comes first because Postgres then really is without privileges.
//
// # Connections
//
// Postgres listens on a Unix socket only, in a directory of mode 0700 that belongs
// to the user whom Postgres runs as. The path of a socket ends at 107 bytes: the directory
// is in /tmp, and DIR/socket leads there. There are two roles: outcry, which owns the
// database, and outcry_admin, a superuser. Postgres asks the kernel who connects (peer)
// and lets in, as either, root, the user of this process and the one that it runs as
// (access.go). All of these can change the data files, so a password would protect nothing.
// In clusters of former versions outcry is the superuser; roles.go changes that at a start.
//
// # Life and death
//
// A postmaster that dies is started again until Stop. The kernel sends SIGQUIT to
// the postmaster when this process ends, however that happens; this needs Linux.
// SIGQUIT stops Postgres at once and costs the next start a recovery. SIGINT would
// wait for a checkpoint, and the next start for that. What was committed is safe
// either way. The next start waits until the former postmaster is gone.
package local
