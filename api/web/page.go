package web

import (
	"net/http"
	"strings"
	"sync"
)

// Page is one page with its files. It answers requests for what is below its path.
type Page struct {
	name string
	html func() *file
}

// The pages. The playground asks for nothing before it has been given a key; neither does the console. Docs shows /openapi.json.
var (
	Playground = newPage("playground")
	Console    = newPage("console")
	Docs       = newPage("docs")
)

func newPage(name string) *Page {
	return &Page{name: name, html: sync.OnceValue(func() *file {
		t := everything()
		index := t.files[name+"/index.html"]
		text := strings.ReplaceAll(string(index.plain), "{{assets}}", "assets/"+t.version)
		return newFile(index.kind, []byte(text))
	})}
}

// Path is where the page is, without a slash at its end. What it asks for lies below it.
func (p *Page) Path() string { return "/" + p.name }

// Has reports whether a path is the page's or below it.
func (p *Page) Has(path string) bool {
	rest, ok := strings.CutPrefix(path, p.Path())
	return ok && (rest == "" || rest[0] == '/')
}

// Request is what counts of a request for a page or one of its files.
type Request struct {
	Path           string // as the client wrote it, without a query
	AcceptEncoding string
	IfNoneMatch    string
}

// Answer is what is sent: a status, header fields and a body, which must not be changed.
type Answer struct {
	Status int
	Header [][2]string
	Body   []byte
}

// policy lets a page run its own files and ask its own server, and nothing else: no script or style inside of HTML, no text that becomes
// HTML, no other host, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; " +
	"base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"

const assetsPart = "/assets/"

// Answer is the answer to a request for a path of the page: the page, one of its files, the way to the page, or 404.
func (p *Page) Answer(r Request) Answer {
	t := everything()
	rest := strings.TrimPrefix(r.Path, p.Path())
	switch asset, isAsset := strings.CutPrefix(rest, assetsPart+t.version+"/"); {
	case rest == "":
		return redirect(p.name + "/")
	case rest == "/":
		return p.html().answer(r, `"`+p.name+"-"+t.version+`"`, "no-cache")
	case isAsset && t.files[asset] != nil && !strings.HasSuffix(asset, "/index.html"):
		return t.files[asset].answer(r, `"`+t.version+`"`, "public, max-age=31536000, immutable")
	}
	a := Answer{Status: http.StatusNotFound, Body: []byte("there is no such file here; the page is at " + p.Path() + "/\n")}
	a.Header = append(guards(), [2]string{"Content-Type", "text/plain; charset=utf-8"}, [2]string{"Cache-Control", "no-store"})
	return a
}

// redirect leads a browser to a page by its path relative to the one that was asked for, as it is behind a proxy, too.
func redirect(to string) Answer {
	return Answer{Status: http.StatusSeeOther, Header: append(guards(), [2]string{"Location", to}, [2]string{"Cache-Control", "no-store"})}
}

func (f *file) answer(r Request, etag, keep string) Answer {
	a := Answer{Status: http.StatusOK, Header: append(guards(),
		[2]string{"Content-Type", f.kind}, [2]string{"ETag", etag}, [2]string{"Cache-Control", keep}, [2]string{"Vary", "Accept-Encoding"})}
	if strings.Contains(r.IfNoneMatch, etag) {
		a.Status = http.StatusNotModified
		return a
	}
	body, coding := f.in(r.AcceptEncoding)
	if coding != "" {
		a.Header = append(a.Header, [2]string{"Content-Encoding", coding})
	}
	a.Body = body
	return a
}

// guards are the header fields that every answer has.
func guards() [][2]string {
	return [][2]string{
		{"Content-Security-Policy", policy}, {"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Opener-Policy", "same-origin"}, {"Cross-Origin-Resource-Policy", "same-origin"}, {"X-Frame-Options", "DENY"},
	}
}
