package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheServerTakesTheSettingsOfEachNode makes the server check its settings in the environment of each service,
// combined with the image's, and with files in place of mounted secrets.
func TestTheServerTakesTheSettingsOfEachNode(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "outcryd")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", program, "./cmd/outcryd").
		CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(t.Context(), filepath.Join(deploy, "peers.sh"), dir, "1=node1", "2=node2", "3=node3").
		CombinedOutput()
	require.NoError(t, err, string(out))
	p := cluster(t)
	p.Services["outcryd"] = project(t).Services["outcryd"]
	checked := 0
	for name, s := range p.Services {
		if !strings.HasPrefix(name, "node") && name != "outcryd" {
			continue
		}
		environment := []string{"OUTCRY_DATA=" + dir, "OUTCRY_LISTEN=:12345", "OUTCRY_HTTP=:8080"}
		node := strings.TrimPrefix(name, "node")
		files := strings.NewReplacer("/run/secrets/pgpass", os.DevNull,
			"/run/secrets/peer_authority", filepath.Join(dir, "ca.pem"),
			"/run/secrets/peer_certificate", filepath.Join(dir, node+".pem"),
			"/run/secrets/peer_key", filepath.Join(dir, node+".key"))
		for variable, value := range s.Environment {
			environment = append(environment, variable+"="+files.Replace(*value))
		}
		check := exec.CommandContext(t.Context(), program, "--check-config")
		check.Env = environment
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		for variable := range s.Environment {
			if strings.HasPrefix(variable, "OUTCRY_") {
				require.Contains(t, string(out), "# "+variable+"\n", "%s: no such setting", name)
			}
		}
		checked++
	}
	require.Equal(t, 4, checked)
}
