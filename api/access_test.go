package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestAccess(t *testing.T) {
	loopback := Access{Loopback: true}
	named := Access{Loopback: true, Hosts: []string{"weir.Example", "other"}, Origins: []string{"https://chat.example", "null"}}
	public := Access{Hosts: []string{"weir.example"}}
	everything := Access{Loopback: true, Hosts: []string{"*"}, Origins: []string{"*"}}
	for _, tc := range []struct {
		access               Access
		method, host, origin string
		code                 string
	}{
		{loopback, "GET", "localhost", "", ""},
		{loopback, "GET", "LocalHost:8000", "", ""},
		{loopback, "GET", "localhost.", "", ""},
		{loopback, "GET", "app.localhost:1", "", ""},
		{loopback, "GET", "127.0.0.1:8000", "", ""},
		{loopback, "GET", "[::1]:8000", "", ""},
		{loopback, "GET", "[::1]", "", ""},
		{loopback, "GET", "10.1.2.3", "", ""}, // an address cannot be rebound
		{loopback, "GET", "", "", ""},
		{loopback, "GET", "evil.example", "", "host_not_allowed"},
		{loopback, "GET", "evil.example:8000", "", "host_not_allowed"},
		{loopback, "GET", "localhost.evil.example", "", "host_not_allowed"},
		{loopback, "GET", "127.0.0.1.nip.io", "", "host_not_allowed"},
		{loopback, "GET", "evillocalhost", "", "host_not_allowed"},
		{loopback, "GET", "localhost@evil.example", "", "host_not_allowed"},
		{loopback, "GET", "0x7f.1", "", "host_not_allowed"},
		{named, "GET", "WEIR.example:80", "", ""},
		{named, "GET", "sub.weir.example", "", "host_not_allowed"},
		{everything, "GET", "evil.example", "", ""},
		{public, "GET", "weir.example", "", ""},
		{public, "GET", "10.0.0.1:8000", "", ""}, // what a cluster's health checks send
		{public, "GET", "evil.example", "", "host_not_allowed"},
		{Access{}, "GET", "evil.example", "", ""},

		{loopback, "POST", "localhost:8000", "http://localhost:8000", ""},
		{loopback, "POST", "localhost:8000", "HTTP://LOCALHOST:8000", ""},
		{loopback, "POST", "localhost:8000", "http://localhost:3000", "origin_not_allowed"},
		{loopback, "POST", "localhost:8000", "https://evil.example", "origin_not_allowed"},
		{loopback, "POST", "localhost:8000", "null", "origin_not_allowed"},
		{loopback, "POST", "localhost:8000", "localhost:8000", "origin_not_allowed"},
		{loopback, "DELETE", "localhost:8000", "https://evil.example", "origin_not_allowed"},
		{loopback, "GET", "localhost:8000", "https://evil.example", ""},
		{loopback, "OPTIONS", "localhost:8000", "https://evil.example", ""},
		{Access{}, "POST", "weir.example", "https://weir.example", ""},
		{Access{}, "POST", "weir.example", "https://evil.example", "origin_not_allowed"},
		{named, "POST", "localhost", "https://chat.example", ""},
		{named, "POST", "localhost", "http://chat.example", "origin_not_allowed"},
		{named, "POST", "localhost", "https://chat.example.evil", "origin_not_allowed"},
		{named, "POST", "localhost", "null", ""},
		{everything, "POST", "localhost", "https://evil.example", ""},
	} {
		code := ""
		if e := tc.access.Check(tc.method, tc.host, tc.origin); e != nil {
			code = e.Code
			if e.Status != http.StatusForbidden || !strings.Contains(e.Message, "--allowed-") {
				t.Errorf("%+v", e)
			}
		}
		if code != tc.code {
			t.Errorf("%s %q from %q: %q, want %q", tc.method, tc.host, tc.origin, code, tc.code)
		}
	}
}

func FuzzAccess(f *testing.F) {
	f.Add("localhost:80", "http://localhost:80")
	f.Add("[::1%25eth0]:80", "null")
	f.Fuzz(func(t *testing.T, host, origin string) {
		a := Access{Loopback: true}
		if e := a.Check("POST", host, origin); e == nil && host != "" {
			if name := hostName(host); name != "localhost" && !strings.HasSuffix(name, ".localhost") && !isAddress(name) {
				t.Errorf("%q was let in", host)
			}
			if origin != "" && !strings.HasSuffix(strings.ToLower(origin), strings.ToLower(host)) {
				t.Errorf("%q was let in from %q", host, origin)
			}
		}
	})
}

func TestAccessOnTheWire(t *testing.T) {
	config := DefaultConfig()
	config.Access = Access{Loopback: true, Origins: []string{"https://chat.example"}}
	addr, _ := serve(t, config, echoPath(t))
	for _, tc := range []struct {
		request string
		status  int
		code    string
	}{
		{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "host_not_allowed"},
		{"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403, "host_not_allowed"},
		{"GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n", 403, "host_not_allowed"},
		{"POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 100000\r\n\r\n", 403,
			"origin_not_allowed"},
		{"POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.example\r\nContent-Length: 100000000\r\n\r\n", 413,
			"request_too_large"},
	} {
		c := dial(t, addr)
		send(t, c, tc.request)
		res := wantError(t, c, tc.status, tc.code)
		allowed := res.Header.Get("Access-Control-Allow-Origin")
		if want := map[bool]string{true: "https://chat.example"}[strings.Contains(tc.request, "chat.example")]; allowed != want {
			t.Errorf("%s: allowed origin %q", tc.request, allowed)
		}
		if res.Header.Get("Vary") != "Origin" {
			t.Errorf("%s: Vary is %q", tc.request, res.Header.Get("Vary"))
		}
	}
}

func TestPreflight(t *testing.T) {
	h := echoPath(t)
	config := DefaultConfig()
	const ask = "OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\n" +
		"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, x-stainless-os\r\n"
	for _, tc := range []struct {
		origins       []string
		request       string
		status        int
		allow, header string
	}{
		{nil, strings.Replace(ask, "Request-Method", "Other", 1) + "Origin: https://chat.example\r\n", 200, "", ""}, // left to the handler
		{nil, ask + "Origin: https://chat.example\r\n", 403, "", ""},
		{[]string{"https://chat.example"}, ask + "Origin: https://chat.example\r\n", 204, "https://chat.example",
			"authorization, x-stainless-os"},
		{[]string{"https://chat.example"}, ask + "Origin: https://evil.example\r\n", 403, "", ""},
		{[]string{"*"}, ask + "Origin: https://any.example\r\n", 204, "*", "authorization, x-stainless-os"},
		{[]string{"*"}, ask, 200, "*", ""},
		{[]string{"*"}, strings.Replace(ask, "x-stainless-os", "x\tevil", 1) + "Origin: https://any.example\r\n", 204, "*", ""},
	} {
		config.Access.Origins = tc.origins
		addr, _ := serve(t, config, h)
		c := dial(t, addr)
		send(t, c, tc.request+"\r\n")
		res, body := answer(t, c)
		got := res.Header
		if res.StatusCode != tc.status || got.Get("Access-Control-Allow-Origin") != tc.allow ||
			got.Get("Access-Control-Allow-Headers") != tc.header {
			t.Errorf("%v %q: %d %v %s", tc.origins, tc.request, res.StatusCode, got, body)
		}
		if tc.status == http.StatusForbidden && !strings.Contains(body, "--allowed-origins") {
			t.Errorf("%v: a refused preflight does not name the flag: %s", tc.origins, body)
		}
		if tc.header != "" && (got.Get("Access-Control-Allow-Methods") == "" ||
			!strings.Contains(strings.Join(got.Values("Vary"), ","), "Access-Control-Request-Headers")) {
			t.Errorf("%v: %v", tc.origins, got)
		}
	}
}

// By default the pages of this machine may call a listener on loopback, and no others: names that lead here, names that look alike, files,
// and what a browser would send in a user's name.
func TestPagesOfThisMachine(t *testing.T) {
	config := DefaultConfig()
	config.Access = Access{Loopback: true, LocalPages: true}
	addr, _ := serve(t, config, echoPath(t))
	ask := func(request string) (status int, header http.Header, body string) {
		c := dial(t, addr)
		send(t, c, request)
		res, body := answer(t, c)
		return res.StatusCode, res.Header, body
	}
	for origin, may := range map[string]bool{
		"http://localhost:3000": true, "http://localhost": true, "https://localhost:8443": true, "http://LOCALHOST:1": true, "http://127.0.0.1:5173": true,
		"http://127.8.9.1": true, "http://[::1]:8080": true, "http://[::1]": true,
		"http://evil.example": false, "http://localhost.evil.example": false, "http://evil-localhost": false, "http://localhost:3000.evil.example": false,
		"http://localhost@evil.example": false, "http://127.0.0.1.evil.example": false, "http://127.0.0.1.nip.io:3000": false, "http://10.0.0.1:3000": false,
		"http://0.0.0.0:3000": false, "http://127.0.0.1:80:80": false, "http://::1": false, "http://[127.0.0.1]": false,
		"http://2130706433": false, "http://127.1": false, "http://app.localhost:3000": false, "null": false, "file://": false, "localhost:3000": false,
		"chrome-extension://localhost": false, "ftp://localhost": false, "http://localhost:3000/": false, "http://localhost:": true, "http://localhost.": false,
	} {
		status, header, body := ask("POST / HTTP/1.1\r\nHost: localhost:8000\r\nOrigin: " + origin + "\r\nContent-Length: 0\r\n\r\n")
		allowed := header.Get("Access-Control-Allow-Origin")
		if (status == http.StatusOK) != may || (allowed == origin) != may || !may && allowed != "" {
			t.Errorf("a page of %s: %d, allowed %q: %s", origin, status, allowed, body)
		}
		status, header, body = ask("OPTIONS / HTTP/1.1\r\nHost: localhost:8000\r\nOrigin: " + origin + "\r\nAccess-Control-Request-Method: POST\r\n\r\n")
		if (status == http.StatusNoContent) != may || !may && !strings.Contains(body, "--allowed-origins") || header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("a preflight of %s: %d %v %s", origin, status, header, body)
		}
	}
	for request, want := range map[string]int{
		"POST / HTTP/1.1\r\nHost: localhost:8000\r\nOrigin: http://localhost:3000\r\nCookie: a=b\r\nContent-Length: 0\r\n\r\n": 403, // it may be a user's
		"POST / HTTP/1.1\r\nHost: localhost:8000\r\nOrigin: http://localhost:8000\r\nCookie: a=b\r\nContent-Length: 0\r\n\r\n": 200, // the server's own page
		"POST / HTTP/1.1\r\nHost: evil.example:8000\r\nOrigin: http://evil.example:8000\r\nContent-Length: 0\r\n\r\n":          403, // DNS rebinding
		"POST / HTTP/1.1\r\nHost: evil.example:8000\r\nOrigin: http://localhost:3000\r\nContent-Length: 0\r\n\r\n":             403,
		"GET / HTTP/1.1\r\nHost: localhost:8000\r\nOrigin: http://evil.example\r\n\r\n":                                        200, // the page cannot read it
		"POST / HTTP/1.1\r\nHost: localhost:8000\r\nContent-Length: 0\r\n\r\n":                                                 200, // no browser
	} {
		status, header, body := ask(request)
		if allowed := header.Get("Access-Control-Allow-Origin"); status != want || strings.Contains(request, "evil") && allowed != "" && want != 403 {
			t.Errorf("%q: %d, allowed %q: %s", request, status, allowed, body)
		}
		if !strings.Contains(request, "Origin") && header.Get("Vary") != "" {
			t.Errorf("%q: Vary is %q", request, header.Get("Vary"))
		}
	}
}
