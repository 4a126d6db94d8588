package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"

	"weir/configs"
)

// listeners are the ports of a server.
type listeners struct {
	tls      *certificates // nil: plain
	adminTLS bool          // the admin listener has TLS, too

	api   net.Listener
	admin net.Listener // nil: off
	rpc   net.Listener // nil: off
}

// bind takes all ports, or none.
func (l *listeners) bind(c configs.Server) (err error) {
	if l.api, err = listen(c.Address(), "choose another with --port, or --port 0 for a free one"); err != nil {
		return err
	}
	if a := c.AdminAddress; a != "off" {
		if l.admin, err = listen(a, "choose another with --admin-address, or --admin-address off for none"); err != nil {
			return errors.Join(err, l.close())
		}
	}
	if a := c.GRPCAddress; a != "off" {
		if l.rpc, err = listen(a, "choose another with --grpc-address, or --grpc-address off for none"); err != nil {
			return errors.Join(err, l.close())
		}
	}
	return nil
}

// close gives the ports back. Those that their server has closed already are no error.
func (l *listeners) close() error {
	var errs []error
	for _, ln := range []net.Listener{l.api, l.admin, l.rpc} {
		if ln == nil {
			continue
		}
		if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// isAdminSecure reports whether the admin listener speaks TLS.
func (l *listeners) isAdminSecure() bool { return l.tls != nil && l.adminTLS }

// overTLS is the admin listener, over TLS where that is set.
func (l *listeners) overTLS(admin net.Listener) net.Listener {
	if !l.isAdminSecure() {
		return admin
	}
	return tls.NewListener(admin, l.tls.Config())
}

// apiURL is where clients on this machine reach the API.
func (l *listeners) apiURL() string { return baseURL(l.api, l.tls != nil) }

// adminURL is where clients on this machine reach the admin listener; empty: it is off.
func (l *listeners) adminURL() string {
	if l.admin == nil {
		return ""
	}
	return baseURL(l.admin, l.isAdminSecure())
}

// instance is the server's name among those on the store. One that listens on all addresses is named after its host.
func (l *listeners) instance() string {
	return hostNamed(l.api.Addr().String())
}

// hostNamed is an address, with the host's name where it is on all of its addresses.
func hostNamed(at string) string {
	host, port, err := net.SplitHostPort(at)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return at
	}
	name, err := os.Hostname()
	if err != nil {
		return at
	}
	return net.JoinHostPort(name, port)
}

// advertised is where others reach the API.
func (l *listeners) advertised(configured string) string {
	scheme := "http"
	if l.tls != nil {
		scheme = "https"
	}
	return cmp.Or(configured, (&url.URL{Scheme: scheme, Host: l.instance()}).String())
}
