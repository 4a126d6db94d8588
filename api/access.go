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
	Origins  []string // of web pages that may call, such as https://chat.example; "*" is every page, NoPage none

	// LocalPages lets pages of this machine call, which have http://localhost:PORT or the like as their origin. Their requests must bring
	// no cookies: what a browser adds by itself is not theirs.
	LocalPages bool
}

// NoPage in Access.Origins lets no page of another origin call.
const NoPage = "none"

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
		return refuseOrigin(origin)
	}
	return nil
}

// CheckPage refuses what a page of another origin asks for in the background, reading included, by what browsers tell of a request in
// Sec-Fetch-Site and Sec-Fetch-Dest. Other clients send neither, and an address that a person opens passes.
func (a *Access) CheckPage(site, dest, host, origin string) *Error {
	own := site == "" || site == "none" || site == "same-origin"
	if own || dest == "document" || origin != "" && a.takesOrigin(origin, host) {
		return nil
	}
	return Refuse("origin_not_allowed", "a page of another origin asks for this in the background, and this listener answers its own pages alone; "+
		"start it with --allowed-origins ORIGIN to let one")
}

func refuseOrigin(origin string) *Error {
	return Refuse("origin_not_allowed", fmt.Sprintf("pages from %.80q may not call this server; start it with --allowed-origins ORIGIN to let them", origin))
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
	return a.listsOrigin(origin) || isOwnPage(origin, host)
}

// isOwnPage reports whether a page is of the server that it calls.
func isOwnPage(origin, host string) bool {
	_, authority, _ := strings.Cut(origin, "://")
	return authority != "" && strings.EqualFold(authority, host)
}

// listsOrigin reports whether pages of an origin may call and read answers.
func (a *Access) listsOrigin(origin string) bool {
	return a.LocalPages && isLocalPage(origin) ||
		slices.ContainsFunc(a.Origins, func(o string) bool { return o == anyName || strings.EqualFold(o, origin) })
}

// isLocalPage reports whether an origin is of this machine: http or https at localhost or a loopback address, at any port. A name that is
// looked up, such as one that leads to 127.0.0.1, is none; nor is "null", the origin of files and of sandboxed frames of any page.
func isLocalPage(origin string) bool {
	scheme, authority, _ := strings.Cut(origin, "://")
	if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return false
	}
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && !strings.HasSuffix(authority, "]") {
		host, port = authority[:i], authority[i+1:]
	}
	if len(port) > 5 || strings.Trim(port, "0123456789") != "" {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address, err := netip.ParseAddr(bare)
	return err == nil && address.IsLoopback() && address.Is6() == (bare != host)
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
