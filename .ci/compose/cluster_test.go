package compose

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// cluster is the project of three nodes.
func cluster(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose.cluster.yaml")})
	require.NoError(t, err)
	p, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return p
}

// TestTheNodesDifferInTheirNumberOnly compares the configurations of the nodes.
func TestTheNodesDifferInTheirNumberOnly(t *testing.T) {
	p := cluster(t)
	require.Len(t, p.Services, 6)
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("node%d", n)
		s := p.Services[name]
		set := func(variable string) string {
			value := s.Environment["OUTCRY_"+variable]
			require.NotNil(t, value, "%s: %s", name, variable)
			return *value
		}
		require.Equal(t, fmt.Sprint(n), set("NODE"))
		require.Equal(t, "1=node1:12350,2=node2:12350,3=node3:12350", set("PEERS"))
		require.Equal(t, fmt.Sprintf("127.0.0.1:%d", 12344+n), set("ADVERTISE_LISTEN"))
		require.Equal(t, fmt.Sprintf("127.0.0.1:%d", 8079+n), set("ADVERTISE_HTTP"))
		require.Contains(t, *s.Environment["DATABASE_URL"], fmt.Sprintf("@postgres%d:5432/", n))
		var published []string
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP)
			published = append(published, port.Published+":"+fmt.Sprint(port.Target))
		}
		require.Equal(t, []string{fmt.Sprintf("%d:12345", 12344+n), fmt.Sprintf("%d:8080", 8079+n)}, published)
		mounted := map[string]string{} // by the path that the settings name
		for _, of := range s.Secrets {
			target := of.Target
			if target == "" {
				target = of.Source
			}
			mounted["/run/secrets/"+filepath.Base(target)] = filepath.ToSlash(p.Secrets[of.Source].File)
		}
		for variable, file := range map[string]string{
			"PEER_CA": "ca.pem", "PEER_CERT": fmt.Sprintf("%d.pem", n), "PEER_KEY": fmt.Sprintf("%d.key", n),
		} {
			require.True(t, strings.HasSuffix(mounted[set(variable)], "/secrets/peers/"+file), "%s: %v", variable, mounted)
		}
		require.Contains(t, mounted, "/run/secrets/pgpass")
		require.Equal(t, fmt.Sprintf("journal%d", n), s.Volumes[0].Source)
		require.Equal(t, fmt.Sprintf("postgres%d", n), p.Services[fmt.Sprintf("postgres%d", n)].Volumes[0].Source)
	}
	require.True(t, bool(p.Networks["peers"].Internal))
}

// TestTheScriptMakesACertificateForEachNode makes them twice, and verifies them with openssl.
func TestTheScriptMakesACertificateForEachNode(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "peers")
	certify := func(nodes ...string) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(deploy, "peers.sh"),
			append([]string{folder}, nodes...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	certify("1=node1", "2=10.0.0.2")
	first, err := os.ReadFile(filepath.Join(folder, "1.pem"))
	require.NoError(t, err)
	certify("1=node1", "3=::1")
	again, err := os.ReadFile(filepath.Join(folder, "1.pem"))
	require.NoError(t, err)
	require.Equal(t, first, again, "one that is there is kept")
	for n, host := range map[string][]string{"1": {"-verify_hostname", "node1"}, "2": {"-verify_ip", "10.0.0.2"},
		"3": {"-verify_ip", "::1"}} {
		for _, purpose := range []string{"sslserver", "sslclient"} {
			args := append([]string{"verify", "-CAfile", filepath.Join(folder, "ca.pem"), "-purpose", purpose}, host...)
			out, err := exec.CommandContext(t.Context(), "openssl", append(args, filepath.Join(folder, n+".pem"))...).
				CombinedOutput()
			require.NoError(t, err, string(out))
		}
		info, err := os.Stat(filepath.Join(folder, n+".key"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}
