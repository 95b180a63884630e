//go:build operations

package check

// newPair returns commands that make a certificate of 127.0.0.1 and its key, valid for a number of days.
func newPair(name, days string) string {
	return "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days " + days + " -subj /CN=exchange " +
		"-addext subjectAltName=IP:127.0.0.1 -keyout " + name + ".key -out " + name + ".pem 2> /dev/null && " +
		"chgrp outcry " + name + ".key " + name + ".pem && chmod 640 " + name + ".key " + name + ".pem; "
}

// Troubles with files that a server reads while it is running.
var (
	// The other runbooks are performed without TLS, so Prometheus is switched to TLS and back.
	expiring = trouble{alert: "OutcryCertificateExpires",
		comes: "systemctl stop customers; " + newPair("/etc/outcry/server", "10") +
			"printf 'tls-cert = /etc/outcry/server.pem\ntls-key = /etc/outcry/server.key\n' >> /etc/outcry/outcryd.conf; " +
			"systemctl restart outcryd; " +
			"sed -i 's/- job_name: outcry/&\\n    scheme: https\\n    tls_config: {insecure_skip_verify: true}/' " +
			"/etc/outcry-prometheus/prometheus.yml; " +
			"systemctl kill --signal=HUP prometheus-here",
		meanwhile: map[string]string{"a new pair is in /root/new.pem and /root/new.key": newPair("/root/new", "90")},
		healed:    "outcry_tls_certificate_expiry_timestamp_seconds > time() + 80 * 86400",
		ended: "sed -i '/^tls-/d' /etc/outcry/outcryd.conf; systemctl restart outcryd; " +
			"sed -i '/scheme: https/d; /insecure_skip_verify/d' /etc/outcry-prometheus/prometheus.yml; systemctl kill " +
			"--signal=HUP prometheus-here; systemctl start customers"}

	notReloaded = trouble{alert: "OutcryReloadFailed",
		comes: "cp -a /etc/outcry/outcryd.conf /root/outcryd.conf; echo max-lag = lots >> /etc/outcry/outcryd.conf; " +
			"systemctl kill --signal=HUP --kill-who=main outcryd",
		meanwhile: map[string]string{"somebody corrects the file": "cp -a /root/outcryd.conf /etc/outcry/outcryd.conf"}}
)
