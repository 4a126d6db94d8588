package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Access says which host names requests to a listener may name, and the origins
// whose web pages may call it. It protects a listener on loopback from web pages
// in a browser on the same machine: with DNS rebinding such a page sends requests
// that name the page's host, with cross-site requests it names the listener's.
//
// The zero value answers under every name, and takes state-changing requests
// from pages of the same origin only.
type Access struct {
	Loopback bool     // the listener is bound to loopback: names other than localhost must be in Hosts
	Hosts    []string // names to answer under; "*" is every name
	Origins  []string // of web pages that may call, such as https://chat.example; "*" is every page
}

// anyName, in a list of Access, stands for everything.
const anyName = "*"

// Check refuses a request for its Host and Origin headers; nil lets it pass.
// Without a Host (HTTP/1.0) or an Origin there is nothing to check: browsers
// send both.
func (a *Access) Check(method, host, origin string) *Error {
	if host != "" && !a.answersTo(host) {
		return Refuse("host_not_allowed", fmt.Sprintf("this server does not answer to the name %.80q; call it as localhost or by its address, "+
			"or start it with --allowed-hosts NAME", hostName(host)))
	}
	if origin != "" && changesState(method) && !a.takesOrigin(origin, host) {
		return Refuse("origin_not_allowed", fmt.Sprintf("pages from %.80q may not call this server; start it with --allowed-origins ORIGIN to let them", origin))
	}
	return nil
}

// answersTo reports whether a host may be named. IP addresses always may, since
// DNS rebinding needs a name.
func (a *Access) answersTo(host string) bool {
	if !a.Loopback && len(a.Hosts) == 0 {
		return true
	}
	name := hostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || isAddress(name) {
		return true
	}
	return slices.ContainsFunc(a.Hosts, func(h string) bool { return h == anyName || strings.EqualFold(h, name) })
}

// takesOrigin reports whether pages of an origin may call. Pages that this server
// sent always may; the scheme is not compared, since a proxy in front may change it.
func (a *Access) takesOrigin(origin, host string) bool {
	if a.listsOrigin(origin) {
		return true
	}
	_, authority, _ := strings.Cut(origin, "://")
	return authority != "" && strings.EqualFold(authority, host)
}

func (a *Access) listsOrigin(origin string) bool {
	return slices.ContainsFunc(a.Origins, func(o string) bool { return o == anyName || strings.EqualFold(o, origin) })
}

func changesState(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// hostName is a Host header without port, brackets and the root's dot.
func hostName(host string) string {
	if strings.IndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}
