// Package compose checks deploy/compose.yaml with the library that Docker Compose itself uses: that it is valid, and
// that it follows the rules of docs/reference/CONTAINERS.md.
package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const deploy = "../../deploy"

func project(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose.yaml")},
		cli.WithProfiles([]string{"alerts"}))
	require.NoError(t, err)
	p, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return p
}

// protected is the project with TLS and tokens added.
func protected(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose.yaml"),
		filepath.Join(deploy, "compose.protected.yaml")})
	require.NoError(t, err)
	p, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return p
}

// services are those of both Compose files, by name.
func services(t *testing.T) types.Services {
	all := types.Services{}
	for _, p := range []*types.Project{project(t), cluster(t)} {
		for name, s := range p.Services {
			all[p.Name+"/"+name] = s
		}
	}
	return all
}

// TestWithTLSAndTokensNothingElseChanges compares both forms of the project.
func TestWithTLSAndTokensNothingElseChanges(t *testing.T) {
	plain, p := project(t), protected(t)
	secret := func(s types.ServiceConfig, name string) string {
		for _, of := range s.Secrets {
			if of.Source == name {
				return filepath.Base(p.Secrets[name].File)
			}
		}
		return ""
	}
	outcryd := p.Services["outcryd"]
	require.Equal(t, "true", *outcryd.Environment["OUTCRY_AUTH"])
	for setting, name := range map[string]string{"OUTCRY_TLS_CERT": "server_certificate", "OUTCRY_TLS_KEY": "server_key"} {
		require.Equal(t, "/run/secrets/"+name, *outcryd.Environment[setting])
		require.NotEmpty(t, secret(outcryd, name), name)
		delete(outcryd.Environment, setting)
	}
	delete(outcryd.Environment, "OUTCRY_AUTH")
	require.Equal(t, "true", *plain.Services["outcryd"].Environment["OUTCRY_OPEN"], "in the environment, not in the image")
	require.Equal(t, "false", *outcryd.Environment["OUTCRY_OPEN"])
	outcryd.Environment["OUTCRY_OPEN"] = plain.Services["outcryd"].Environment["OUTCRY_OPEN"]
	require.Equal(t, "outcryd", *plain.Services["outcryd"].Environment["OUTCRY_HTTP_HOSTS"], "by which Prometheus asks")
	require.Equal(t, plain.Services["outcryd"].Environment, outcryd.Environment)
	require.Equal(t, plain.Services["outcryd"].Ports, outcryd.Ports)
	require.NotEmpty(t, secret(outcryd, "pgpass"))

	// The container has everything that the page says operators find in it.
	page, err := os.ReadFile("../../docs/reference/CONTAINERS.md")
	require.NoError(t, err)
	for name, file := range map[string]string{"authority": "ca.pem", "admin_token": "admin.token"} {
		require.Contains(t, string(page), " /run/secrets/"+name+" ")
		require.Equal(t, file, secret(outcryd, name))
	}

	prometheus := p.Services["prometheus"]
	require.Equal(t, "ca.pem", secret(prometheus, "authority"))
	require.Equal(t, "prometheus.token", secret(prometheus, "prometheus_token"))
	require.Len(t, prometheus.Volumes, len(plain.Services["prometheus"].Volumes), "the configuration is replaced")
	require.Equal(t, strings.Replace(uncommented(t, "compose/prometheus.yml"), "  - job_name: outcry\n",
		"  - job_name: outcry\n    scheme: https\n"+
			"    authorization: {credentials_file: /run/secrets/prometheus_token}\n    tls_config: {ca_file: "+
			"/run/secrets/authority}\n", 1),
		uncommented(t, "compose/prometheus.protected.yml"))
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				_, err := os.Stat(v.Source)
				require.NoError(t, err, name)
			}
		}
	}
}

func TestTheServicesAreThoseThatAreDocumented(t *testing.T) {
	p := project(t)
	require.Equal(t, "outcry", p.Name)
	require.ElementsMatch(t, []string{"outcryd", "postgres", "prometheus", "alertmanager", "grafana"}, p.ServiceNames())
	require.Equal(t, []string{"alerts"}, p.Services["alertmanager"].Profiles, "only where it is asked for")
	build := p.Services["outcryd"].Build
	require.FileExists(t, filepath.Join(build.Context, build.Dockerfile))
	require.Equal(t, types.ServiceConditionHealthy, p.Services["outcryd"].DependsOn["postgres"].Condition)
}

func TestNoServiceHasPowersThatItDoesNotNeed(t *testing.T) {
	for name, s := range services(t) {
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Empty(t, s.CapAdd, name)
		require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, name)
		require.True(t, s.ReadOnly, name)
		require.False(t, s.Privileged, name)
		require.Empty(t, s.NetworkMode+s.Pid+s.Ipc, "%s: namespaces of its own", name)
		require.Empty(t, s.Devices, name)
		limits := s.Deploy.Resources.Limits
		require.Positive(t, float64(limits.NanoCPUs), name)
		require.Positive(t, int64(limits.MemoryBytes), name)
		require.Positive(t, limits.Pids, name)
		require.Equal(t, "unless-stopped", s.Restart, name)
		require.Contains(t, s.Logging.Options, "max-size", name)
		require.NotContains(t, s.User, "root", name)
	}
}

func TestEveryServiceHasAHealthCheck(t *testing.T) {
	for name, s := range services(t) {
		if s.Build != nil {
			dockerfile, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
			require.NoError(t, err)
			require.Regexp(t, `(?m)^HEALTHCHECK .*CMD \["/usr/bin/outcryd", "--health"\]$`, string(dockerfile))
			require.Nil(t, s.HealthCheck, "the image's would be overridden")
			continue
		}
		require.NotNil(t, s.HealthCheck, name)
		require.Equal(t, "CMD", s.HealthCheck.Test[0], "%s: without a shell", name)
	}
}

func TestOnlyWhatMustBeReachedIsAndOnlyFromThisMachine(t *testing.T) {
	p := project(t)
	published := map[string][]string{}
	for name, s := range p.Services {
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s: port %s", name, port.Published)
			published[name] = append(published[name], port.Published)
		}
	}
	require.Equal(t, map[string][]string{"outcryd": {"12345", "8080"}, "grafana": {"3000"}}, published)
	networks := func(service string) (names []string) {
		for n := range p.Services[service].Networks {
			names = append(names, n)
		}
		return names
	}
	require.ElementsMatch(t, []string{"database"}, networks("postgres"))
	require.ElementsMatch(t, []string{"metrics"}, networks("prometheus"))
	require.ElementsMatch(t, []string{"metrics", "mail"}, networks("alertmanager"), "mail has to get out")
	require.True(t, bool(p.Networks["database"].Internal))
	require.True(t, bool(p.Networks["metrics"].Internal))
}

func TestImagesAreOfOneVersion(t *testing.T) {
	version := regexp.MustCompile(`:v?\d+\.\d+(\.\d+)?(-\w+)?$`)
	for name, s := range services(t) {
		if s.Build == nil {
			require.Regexp(t, version, s.Image, name)
		}
	}
	dockerfile, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	require.NoError(t, err)
	froms := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(dockerfile), -1)
	require.Len(t, froms, 2)
	require.Regexp(t, version, froms[0][1])
	require.Equal(t, "scratch", froms[1][1])
}

func TestSecretsAreFilesThatAreNotInTheRepository(t *testing.T) {
	p := project(t)
	for name, secret := range p.Secrets {
		require.NotEmpty(t, secret.File, name)
		require.NoFileExists(t, filepath.Join(deploy, "compose", filepath.Base(secret.File)))
	}
	for name, s := range services(t) {
		for variable, value := range s.Environment {
			if strings.Contains(variable, "PASSWORD") {
				require.True(t, strings.HasSuffix(variable, "_FILE"), "%s: %s", name, variable)
			}
			if value != nil {
				require.NotRegexp(t, `://[^@/]*:[^@/]*@`, *value, "%s: %s holds a password", name, variable)
			}
		}
	}
	ignored, err := os.ReadFile("../../.gitignore")
	require.NoError(t, err)
	require.Contains(t, string(ignored), "/deploy/secrets/\n")
	left, err := os.ReadFile(filepath.Join(deploy, "Dockerfile.dockerignore"))
	require.NoError(t, err)
	require.Contains(t, string(left), "deploy/secrets\n")
	for _, kind := range []string{"token", "key", "backup"} { // wherever somebody makes one
		require.Contains(t, string(ignored), "\n*."+kind+"\n")
		require.Contains(t, string(left), "\n**/*."+kind+"\n")
	}
}

// TestNoDocumentedCommandLeavesASecretOpen checks every command of the page that writes to a file.
func TestNoDocumentedCommandLeavesASecretOpen(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/CONTAINERS.md")
	require.NoError(t, err)
	written := regexp.MustCompile(`(?m)^\$ docker compose .* exec -T .* > (\S+)$`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, written)
	for _, file := range written {
		require.Equal(t, "deploy/secrets", filepath.Dir(file[1]), "the folder is closed to others, and in no image")
	}
}

func TestTheScriptMakesTheSecretsOnce(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(deploy, "secrets.sh"))
	require.NoError(t, err)
	script := filepath.Join(dir, "secrets.sh")
	require.NoError(t, os.WriteFile(script, b, 0o755))
	require.NoError(t, exec.CommandContext(t.Context(), script).Run())

	made := map[string]string{}
	for name, secret := range project(t).Secrets {
		path := filepath.Join(dir, "secrets", filepath.Base(secret.File))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		made[name] = string(b)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o644), info.Mode(), "%s: the container's user has to read it", name)
	}
	info, err := os.Stat(filepath.Join(dir, "secrets"))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	require.Regexp(t, `^[0-9a-f]{48}$`, made["postgres_password"])
	require.Regexp(t, `^[0-9a-f]{48}$`, made["grafana_password"])
	require.NotEqual(t, made["postgres_password"], made["grafana_password"])
	require.Equal(t, "*:5432:outcry:outcry:"+made["postgres_password"]+"\n", made["pgpass"])

	out, err := exec.CommandContext(t.Context(), script).CombinedOutput()
	require.Error(t, err, "those that are in use are not replaced")
	require.Contains(t, string(out), "is there already")
}

// TestTheScriptGoesOnAfterOneThatWasKilled kills the script halfway: the next run must not treat anything unfinished
// as done.
func TestTheScriptGoesOnAfterOneThatWasKilled(t *testing.T) {
	dir, none := t.TempDir(), t.TempDir()
	b, err := os.ReadFile(filepath.Join(deploy, "secrets.sh"))
	require.NoError(t, err)
	script := filepath.Join(dir, "secrets.sh")
	require.NoError(t, os.WriteFile(script, b, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(none, "chmod"), []byte("#!/bin/sh\nkill -9 $PPID\n"), 0o755))
	killed := exec.CommandContext(t.Context(), script)
	killed.Env = []string{"PATH=" + none + ":" + os.Getenv("PATH")}
	require.Error(t, killed.Run())
	require.NoDirExists(t, filepath.Join(dir, "secrets"))
	require.NoError(t, exec.CommandContext(t.Context(), script).Run())
	require.NoDirExists(t, filepath.Join(dir, "secrets.partial"))
	require.FileExists(t, filepath.Join(dir, "secrets", "pgpass"))
}

func TestEveryMountedFileIsThere(t *testing.T) {
	for name, s := range project(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			require.True(t, v.ReadOnly, "%s: %s", name, v.Target)
			_, err := os.Stat(v.Source)
			require.NoError(t, err, name)
		}
	}
}

// uncommented returns a file without comments and blank lines.
func uncommented(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deploy, path))
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(b)) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "#") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(lines, "\n")
}

// TestTheFilesForComposeDifferInAddressesOnly compares them with those that Prometheus
// and Grafana on one machine use.
func TestTheFilesForComposeDifferInAddressesOnly(t *testing.T) {
	require.Equal(t, strings.NewReplacer("127.0.0.1:8080", "outcryd:8080",
		"    - file_sd_configs:\n        - files: [alertmanagers.yml]\n",
		"    - dns_sd_configs:\n        - names: [alertmanager]\n          type: A\n          port: 9093\n").
		Replace(uncommented(t, "prometheus/prometheus.yml")), uncommented(t, "compose/prometheus.yml"))
	require.Equal(t, strings.ReplaceAll(uncommented(t, "grafana/provisioning/datasources/outcry.yml"), "127.0.0.1:9090",
		"prometheus:9090"),
		uncommented(t, "compose/datasource.yml"))
}
