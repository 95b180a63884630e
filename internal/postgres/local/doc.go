// Package local runs a Postgres of the server's own, below its data directory, for users who have not set one up.
//
//	DIR/data            the data directory of Postgres
//	DIR/data.making-*   an initdb that is running or was interrupted; the next start removes it
//	DIR/postgres.log    the log of Postgres, bounded in size
//	DIR/socket          a link to the directory of the Unix socket
//	DIR/lock            locked while a process uses the cluster
//
// # Binaries
//
// Installed binaries are preferred: those of the version that made the data directory or, without data, those of
// the newest version. If none fits, binaries are downloaded once into a cache, but only of a version with a known
// checksum (checksums.go). The binaries are not run as root. If the download fails too, the error names the
// package to install.
//
// # Root
//
// Postgres refuses to run as root. If this process is root, Postgres runs as the owner of the data directory, or
// as the user outcry if there is no data yet. Without such a user it runs as postgres, nobody or daemon, whose
// other programs can then read the data files. Once the user outcry exists, it gets their data.
//
// Parent folders may be closed to that user, such as a home directory of mode 0700: this process opens the data
// directory, and Postgres gets the open file and names its data directory through /proc/self/fd.
//
// Some sandboxes forbid root to become another user. Postgres then runs in a separate user namespace, in which
// root's id looks like an unprivileged one, and its files belong to root. The first way is preferred, because
// Postgres then really is unprivileged.
//
// # Connections
//
// Postgres listens only on a Unix socket, in a directory of mode 0700 that belongs to the user as whom Postgres
// runs. The path of a socket has at most 107 bytes, so the directory is in /tmp, and DIR/socket links to it. There
// are two roles: outcry, which owns the database, and outcry_admin, a superuser. Postgres asks the kernel who
// connects (peer authentication), and accepts root, the user of this process and the user as whom it runs, each as
// either role (access.go). All of these can change the data files anyway, so a password would protect nothing. In
// clusters of former versions outcry is the superuser; a start changes that (roles.go).
//
// # Life and death
//
// A postmaster that dies is restarted, until Stop. When this process ends for any reason, the kernel sends SIGQUIT
// to the postmaster; this needs Linux. SIGQUIT stops Postgres at once and makes the next start recover. SIGINT
// would wait for a checkpoint, and the next start would wait for that. Committed data is safe either way. The next
// start waits until the former postmaster has ended.
package local
