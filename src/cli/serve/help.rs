//! The end of the help of `carebook serve`, after the flags.

/// Examples, output, signals, and exit codes.
pub(super) const AFTER_HELP: &str = "\
Examples:
  carebook serve --demo
  carebook serve --demo --data ./demo --listen 127.0.0.1:0
  carebook serve --data /srv/carebook --listen 0.0.0.0:8080 \\
      --internal-listen 127.0.0.1:8081 --issuer https://id.example.com \\
      --audience carebook
  carebook serve --data /srv/carebook --jwks https://id.example.com/keys \\
      --issuer https://id.example.com --audience carebook
  carebook serve --data /srv/carebook --jwks jwks.json --tls-cert cert.pem \\
      --tls-key key.pem
  carebook serve --data /srv/carebook --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main --jwks jwks.json --issuer https://id.example.com \\
      --audience carebook
  carebook serve --config /etc/carebook/carebook.toml
  carebook serve --config /etc/carebook/carebook.toml --check

Prints `listening on http://ADDRESS` on standard output when it is ready, and with \
--internal-listen a second line, `internal on http://ADDRESS`; logs go to standard error \
(RUST_LOG sets what is logged). SIGTERM and SIGINT end it after the requests in flight are \
answered; SIGHUP reads the key set and the certificate again; SIGUSR1 takes a snapshot.

Exit codes:
  0  stopped by a signal, and everything is durable
  1  failed, or the data directory is held by another process
  2  the arguments are wrong, or --demo is reached from other machines without
     --demo-public
  3  the log is damaged: file, offset and position are named; or, with
     --journal, the journal has lost what was acknowledged, is damaged, or is
     another one than this directory's
  5  it was written by another version of carebook, which is named; or, with
     --journal, another process has taken the journal over";
