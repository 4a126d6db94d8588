package configs

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/tenant"
)

// Server says who listens where and who may call.
type Server struct {
	Host            string
	Port            int           // 0 takes a free one
	AdminAddress    string        // of the admin listener; "off" for none
	GRPCAddress     string        // of the predict protocol over gRPC; "off" for none
	PeerKeys        []string      // that weirs share which pass requests on to one another
	Region          string        // where this server is; empty: in none
	Labels          []string      // KEY=VALUE each, that deployments and routers on the store select servers by
	AdvertiseURL    string        // of the API, as routers on the store reach it; empty: by the address that is listened on
	Insecure        bool          // allow listeners that other machines reach and that ask for no key
	APIMetrics      bool          // metrics on the API's port, too
	OpenMetrics     bool          // these to everybody who reaches the port
	ShutdownTimeout time.Duration // for running requests after SIGTERM

	TLS      api.TLSFiles // of the API's listener
	TLSAdmin bool         // of the admin listener, too
}

// Address is host and port of the API's listener.
func (s Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// serverSettings are those of who listens where, and who may call.
func serverSettings(c *Config) []Setting {
	return []Setting{
		{Key: "server.host", Flag: "host", Usage: "address to listen on; 0.0.0.0 is every interface",
			binding: bindText(&c.Server.Host, "a host name or an address", isHost)},
		{Key: "server.port", Flag: "port", Usage: "port of the API; 0 takes a free one",
			binding: bindInt(&c.Server.Port, 0, 65535, "")},
		{Key: "server.admin_address", Flag: "admin-address",
			Usage:   "address of the admin listener, for operators: metrics, profiles, reset of the prefix cache; off for none",
			binding: bindText(&c.Server.AdminAddress, "host:port, or off", isAddressOrOff)},
		{Key: "server.grpc_address", Flag: "grpc-address",
			Usage:   "address of classical models over gRPC, for callers, and over TLS, as the API has; 127.0.0.1:8001 is usual, off for none",
			binding: bindText(&c.Server.GRPCAddress, "host:port, or off", isAddressOrOff)},
		{Key: "server.api_key", Flag: "api-key", Secret: true,
			Usage:   "key of at least 8 bytes that clients send as a bearer token; repeat for several",
			binding: bindList(&c.API.APIKeys, "a key of at least 8 bytes")},
		{Key: "server.peer_key", Flag: "peer-key", Secret: true,
			Usage: "shared secret of at least 32 bytes between routers and replicas, by which replicas trust the tenant that a router names; " +
				"best from the environment or the file; repeat to rotate: the first signs, all are accepted",
			binding: bindList(&c.Server.PeerKeys, "a key of at least 32 bytes")},
		{Key: "server.region", Flag: "region",
			Usage:   "region of this server: tenants whose residency names others are refused",
			binding: bindText(&c.Server.Region, tenant.NameForm+", or nothing", func(s string) bool { return s == "" || tenant.IsName(s) })},
		{Key: "server.labels", Flag: "label",
			Usage: "KEY=VALUE that deployments and routers on the store select this server by, such as role=decode; repeat for several; " +
				"region, arch, isa and memory-mib are labels by themselves",
			binding: bindLabels(&c.Server.Labels)},
		{Key: "server.advertise_url", Flag: "advertise-url",
			Usage: "URL of the API as routers on the store reach this server, such as http://10.0.0.7:8000; empty is the address " +
				"that it listens on, or the host's name where that is every interface",
			binding: bindText(&c.Server.AdvertiseURL, "a URL like http://10.0.0.7:8000, or nothing", func(s string) bool { return s == "" || isBaseURL(s) })},
		{Key: "server.insecure", Flag: "insecure", Usage: "allow listeners that other machines reach and that ask for no key",
			binding: bindBool(&c.Server.Insecure)},
		{Key: "server.allowed_hosts", Flag: "allowed-hosts",
			Usage: "host name that requests may name, beside localhost and IP addresses; repeat for several, * for every " +
				"name (default: every name; on loopback none)",
			binding: bindNames(&c.HTTP.Access.Hosts, "a host name, or *", isHostName)},
		{Key: "server.allowed_origins", Flag: "allowed-origins",
			Usage: "origin whose web pages may call, such as https://chat.example; repeat for several, * for every " +
				"origin, none for no page (default: on loopback this machine's own, such as http://localhost:3000; else none)",
			binding: bindNames(&c.HTTP.Access.Origins, "an origin (scheme://host, and :port if it is not the scheme's own), none, or *",
				isOrigin)},
		{Key: "server.tls_certificate", Flag: "tls-certificate",
			Usage:   "PEM file with the certificate that the API is served with over TLS, and its chain; empty is plain HTTP",
			binding: bindText(&c.Server.TLS.Certificate, "a path", anyText)},
		{Key: "server.tls_key", Flag: "tls-key", Usage: "PEM file with the key of --tls-certificate",
			binding: bindText(&c.Server.TLS.Key, "a path", anyText)},
		{Key: "server.tls_client_ca", Flag: "tls-client-ca",
			Usage:   "PEM file with the authorities whose client certificates stand for tenants; empty asks clients for none",
			binding: bindText(&c.Server.TLS.ClientCA, "a path", anyText)},
		{Key: "server.tls_admin", Flag: "tls-admin", Usage: "serve the admin listener over TLS too, with the same certificate",
			binding: bindBool(&c.Server.TLSAdmin)},
		{Key: "server.api_metrics", Flag: "api-metrics",
			Usage:   "serve GET /metrics on the API's port too, to clients that have the API key",
			binding: bindBool(&c.Server.APIMetrics)},
		{Key: "server.open_metrics", Flag: "open-metrics",
			Usage:   "with --api-metrics, answer GET /metrics without a key: for scrapers that send none, as an inference gateway's endpoint picker",
			binding: bindBool(&c.Server.OpenMetrics)},
		{Key: "server.shutdown_timeout", Flag: "shutdown-timeout",
			Usage:   "time that running requests get to end after SIGTERM",
			binding: bindDuration(&c.Server.ShutdownTimeout, 0, 24*time.Hour)},

		{Key: "server.retry_while_draining", Flag: "retry-while-draining",
			Usage: "tell clients that are refused while the server drains to try again: another server takes their requests, " +
				"or this one is back soon",
			binding: bindBool(&c.API.DrainRetries)},
	}
}

// httpSettings are those of connections.
func httpSettings(c *Config) []Setting {
	return []Setting{
		{Key: "http.read_timeout", Flag: "http-read-timeout", Usage: "time for a whole request to arrive",
			binding: bindDuration(&c.HTTP.ReadTimeout, time.Millisecond, time.Hour)},
		{Key: "http.idle_timeout", Flag: "http-idle-timeout", Usage: "time that a connection may stay open without a request",
			binding: bindDuration(&c.HTTP.IdleTimeout, time.Millisecond, 24*time.Hour)},
		{Key: "http.write_timeout", Flag: "http-write-timeout",
			Usage:   "time for one write to a client; streams may run longer",
			binding: bindDuration(&c.HTTP.WriteTimeout, time.Millisecond, time.Hour)},
		{Key: "http.max_header_bytes", Flag: "http-max-header-bytes", Usage: "size of the largest request header",
			binding: bindInt(&c.HTTP.MaxHeaderBytes, 1<<10, 1<<20, "")},
		{Key: "http.max_request_bytes", Flag: "http-max-request-bytes", Usage: "size of the largest request body",
			binding: bindInt(&c.HTTP.MaxRequestBytes, 1<<10, 1<<30, "")},
		{Key: "http.body_memory_bytes", Flag: "http-body-memory-bytes",
			Usage: "memory for the request bodies of all connections and for whole answers of replicas, at least twice --http-max-request-bytes; further " +
				"requests get 503",
			binding: bindBytes(&c.HTTP.BodyMemoryBytes, "")},
		{Key: "http.max_connections", Flag: "http-max-connections",
			Usage: "open connections at most, fewer where the limit on open files is lower; further connections replace " +
				"one without a request, or get 503",
			binding: bindInt(&c.HTTP.MaxConnections, 1, 1<<20, "")},
	}
}

func isHost(s string) bool { return s != "" && !strings.ContainsAny(s, " /\t\r\n") }

// isHostName takes what a Host header may name, without a port.
func isHostName(s string) bool { return s == "*" || isHost(s) && !strings.ContainsAny(s, ":*@") }

// isOrigin takes what a browser sends as an Origin header.
func isOrigin(s string) bool {
	if s == "*" || s == "null" || s == api.NoPage {
		return true
	}
	scheme, authority, found := strings.Cut(s, "://")
	return found && scheme != "" && isHost(authority) && !strings.ContainsAny(authority, "*@?#")
}

func isAddressOrOff(s string) bool {
	if s == "off" {
		return true
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !isHost(host) {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// validateTLS checks which files are named; the files themselves are read by who
// serves.
func (s Server) validateTLS() error {
	switch on := s.TLS.On(); {
	case on && s.TLS.Key == "":
		return errors.New("server.tls_key: server.tls_certificate is set and its key is not; set --tls-key to the PEM file of the key")
	case !on && s.TLS.Key != "":
		return errors.New("server.tls_certificate: server.tls_key is set and its certificate is not; set --tls-certificate to the PEM file of the chain")
	case !on && s.TLS.ClientCA != "":
		return errors.New("server.tls_client_ca: clients show certificates over TLS only; set --tls-certificate and --tls-key, too")
	case !on && s.TLSAdmin:
		return errors.New("server.tls_admin: there is no certificate to serve with; set --tls-certificate and --tls-key, too")
	}
	return nil
}
