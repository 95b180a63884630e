package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	role      = "outcry"       // owner of the database; the exchange and operators connect as it
	superuser = "outcry_admin" // made by initdb
	database  = "postgres"     // made by initdb
)

const (
	// notLetIn is the SQLSTATE of the error if the role of a connection does not exist, or pg_hba.conf rejects
	// it.
	notLetIn = "28000"

	// settleLockTimeout bounds how long a step of settleRoles waits for a lock. No other client should be
	// connected so early.
	settleLockTimeout = "30s"
)

// superuserSession are settings for the superuser's sessions. They override those that role may have set for
// its database, which could make a start fail, or make the superuser call role's functions instead of
// Postgres's own.
var superuserSession = map[string]string{
	"search_path":                         "pg_catalog",
	"statement_timeout":                   "0",
	"lock_timeout":                        settleLockTimeout,
	"idle_in_transaction_session_timeout": "0",
	"default_transaction_read_only":       "off",
}

// step is a statement that changes roles or owners, with a description.
type step struct{ does, sql string }

// settling are the steps for every cluster. Repeating them changes nothing.
var settling = []step{
	{"make the role", fmt.Sprintf(`DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '%[1]s') THEN
			CREATE ROLE %[1]s LOGIN;
		ELSIF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '%[1]s' AND (rolsuper OR NOT rolcanlogin)) THEN
			ALTER ROLE %[1]s LOGIN NOSUPERUSER;
		END IF;
	END $$`, role)},
	{"give it the database", fmt.Sprintf(`DO $$ BEGIN
		IF (SELECT pg_get_userbyid(datdba) FROM pg_catalog.pg_database WHERE datname = '%[2]s') <> '%[1]s' THEN
			ALTER DATABASE %[2]s OWNER TO %[1]s;
		END IF;
	END $$`, role, database)},
}

// rename renames the bootstrap superuser of a cluster made by an earlier version, whose name is role's. A session
// cannot rename its own role, so a second superuser does it.
var rename = step{"rename the superuser", fmt.Sprintf(`DO $$ BEGIN
	CREATE ROLE outcry_renames SUPERUSER;
	SET SESSION AUTHORIZATION outcry_renames;
	ALTER ROLE %s RENAME TO %s;
	RESET SESSION AUTHORIZATION;
	DROP ROLE outcry_renames;
END $$`, role, superuser)}

// handing has the steps that make role the owner of everything that the bootstrap superuser owns, one object at a
// time, because Postgres refuses REASSIGN OWNED for that user. Objects that initdb made have ids below 16384 and are
// left out, except the schema public. Parts of extensions (dependency e) and of other objects (dependency i) are left
// out too.
var handing = []step{
	give("the schemas", "SCHEMA", "pg_namespace", "nspowner", "quote_ident(nspname)",
		"oid >= 16384 OR nspname = 'public'"),
	// ALTER TABLE also works for views. A table's own sequences change owner with it, so the next step has
	// only the others.
	give("the tables", "TABLE", "pg_class", "relowner", "oid::regclass",
		"oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm', 'f') AND relpersistence <> 't'"),
	give("the sequences", "SEQUENCE", "pg_class", "relowner", "oid::regclass",
		"oid >= 16384 AND relkind = 'S' AND relpersistence <> 't'"),
	give("the functions", "ROUTINE", "pg_proc", "proowner", "oid::regprocedure", "oid >= 16384"),
	give("the types", "TYPE", "pg_type", "typowner", "oid::regtype", `oid >= 16384 AND typtype IN ('c', 'd', 'e', 'r')
		AND (typrelid = 0 OR (SELECT relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = typrelid))`),
}

// give returns a step that makes role the owner of the objects in a catalog that belong to the bootstrap
// superuser and satisfy the condition where.
func give(what, kind, catalog, owner, name, where string) step {
	return step{"give it " + what, fmt.Sprintf(`DO $$ DECLARE each text; BEGIN
		FOR each IN SELECT %[4]s FROM %[2]s WHERE %[3]s = 10 AND (%[5]s) AND NOT EXISTS
			(SELECT FROM pg_catalog.pg_depend d WHERE d.classid = '%[2]s'::regclass AND d.objid = %[2]s.oid AND d.objsubid = 0
				AND d.deptype IN ('e', 'i'))
		LOOP
			EXECUTE 'ALTER %[1]s ' || each || ' OWNER TO %[6]s';
		END LOOP;
	END $$`, kind, catalog, owner, name, where, role)}
}

// settleRoles makes role the owner of the database without superuser rights. In clusters made by earlier versions,
// role is the bootstrap superuser; there it renames that user, and makes a new role the owner of its objects.
// Everything is one transaction, so an interruption changes nothing, and the next start repeats it.
func (c *Cluster) settleRoles(ctx context.Context) error {
	conn, err := c.connectAsSuperuser(ctx)
	if err != nil {
		return fmt.Errorf("cluster: connect as superuser: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var former bool
		if err := tx.QueryRow(ctx, `SELECT rolname = $1 FROM pg_catalog.pg_roles
			WHERE oid = 10`, role).Scan(&former); err != nil {
			return err
		}
		steps := settling
		if former {
			c.options.Log.Info("giving the exchange a role in the local Postgres that is not a superuser",
				"role", role, "superuser", superuser)
			steps = slices.Concat([]step{rename}, settling, handing)
		}
		for _, s := range steps {
			if _, err := tx.Exec(ctx, s.sql); err != nil {
				return fmt.Errorf("%s: %w", s.does, err)
			}
			if c.stepped != nil {
				c.stepped(c, s.does)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cluster: set up the roles of %s: %w", c.options.Dir, err)
	}
	return nil
}

// connectAsSuperuser connects as the bootstrap superuser, by its present name or by that of former versions.
func (c *Cluster) connectAsSuperuser(ctx context.Context) (*pgx.Conn, error) {
	conn, err := connectWith(ctx, c.AdminURL(), superuserSession)
	if refused(err) {
		return connectWith(ctx, c.URL(), superuserSession)
	}
	return conn, err
}

// connectWith is like pgx.Connect, with settings of the session that override those of the role and of the
// database.
func connectWith(ctx context.Context, url string, settings map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, settings)
	return pgx.ConnectConfig(ctx, config)
}

// refused reports whether err means that Postgres is running and does not let this user connect.
func refused(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return ok && failed.Code == notLetIn
}
