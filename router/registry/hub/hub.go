// Package hub downloads models from where they are published: names of Hugging Face's hub, of Ollama's registry and URLs,
// the list of a repository's files, and the transfer of a file in parallel ranges that goes on after a cut and ends with
// a check of the digest.
package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// Hosts of public hubs. Environment variables of the hubs' own tools name others.
const (
	huggingFace = "https://huggingface.co"
	ollama      = "registry.ollama.ai"
)

// Hub says where hubs are and who asks.
type Hub struct {
	HuggingFace string // base URL
	Ollama      string // host of an OCI registry
	Token       string // for HuggingFace, and for no other host
	Client      *http.Client
	// pause is how long the first retry of a request waits; tests shorten it.
	pause time.Duration
}

// New is a hub as the environment describes it: HF_ENDPOINT, HF_TOKEN (or HUGGING_FACE_HUB_TOKEN) and OLLAMA_REGISTRY.
func New(getenv func(string) string) *Hub {
	return &Hub{
		HuggingFace: strings.TrimSuffix(cmp.Or(getenv("HF_ENDPOINT"), huggingFace), "/"),
		Ollama:      cmp.Or(getenv("OLLAMA_REGISTRY"), ollama),
		Token:       cmp.Or(getenv("HF_TOKEN"), getenv("HUGGING_FACE_HUB_TOKEN")),
		Client:      NewClient(),
		pause:       time.Second,
	}
}

// NewClient is a client that gives no other host than the first the caller's credentials, and leaves TLS for nothing.
func NewClient() *http.Client {
	return &http.Client{CheckRedirect: checkRedirect}
}

const maxRedirects = 10

// errRedirect says that a redirection was refused.
var errRedirect = errors.New("the server redirects")

func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w more than %d times", errRedirect, maxRedirects)
	case first.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w to %s without TLS", errRedirect, req.URL.Host)
	case req.URL.Host != first.Host:
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
	}
	return nil
}

// Kind is where a source lies.
type Kind int

// Kinds.
const (
	HuggingFace Kind = iota // files of a repository
	OCI                     // a manifest of an OCI registry, Ollama's among them
	URL                     // a file
)

// Source is what can be pulled.
type Source struct {
	Kind Kind
	Name string // under which the models folder keeps it: NAME:TAG
	// Repository is ORG/REPO of Hugging Face.
	Repository string
	Tag        string // of Hugging Face: a quantisation or the path of a file; empty: the best known choice
	Reference  string // of OCI: HOST/NAME:TAG
	URL        string
}

// ErrName says that a name is none that can be pulled.
var ErrName = errors.New("not a name that can be pulled")

var (
	hostPattern   = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?(?::[0-9]{1,5})?$`)
	partPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	tagPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$`)
)

// hfHosts are the names of Hugging Face's hub in names of models.
var hfHosts = []string{"hf.co/", "huggingface.co/"}

// Parse reads hf.co/ORG/REPO[:QUANTISATION or :FILE], HOST/NAME[:TAG] of an OCI registry, [NAMESPACE/]NAME[:TAG] of
// Ollama's, and the URL of a file. A name whose first part has a dot or a port is that of a host, as for containers.
func (h *Hub) Parse(text string) (Source, error) {
	wrong := func(why string) (Source, error) {
		return Source{}, fmt.Errorf("%w: %.300q %s; give hf.co/ORG/REPO:QUANTISATION, HOST/NAME:TAG, NAME:TAG of Ollama's registry, or a URL", ErrName, text, why)
	}
	if len(text) > 2000 {
		return wrong("is too long")
	}
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		return h.parseURL(text, wrong)
	}
	for _, host := range hfHosts {
		if rest, ok := strings.CutPrefix(text, host); ok {
			return parseRepository(rest, wrong)
		}
	}
	name, tag, tagged := text, "latest", false
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') {
		name, tag, tagged = text[:i], text[i+1:], true
	}
	before, digest, pinned := strings.Cut(text, "@")
	if pinned {
		name, tag, tagged = before, "latest", false
		if !digestPattern.MatchString(digest) {
			return wrong(fmt.Sprintf("has the digest %.80q", digest))
		}
	}
	parts := strings.Split(name, "/")
	host := ""
	if len(parts) > 1 && (strings.ContainsAny(parts[0], ".:") || parts[0] == "localhost") {
		host, parts = parts[0], parts[1:]
		if !hostPattern.MatchString(host) {
			return wrong(fmt.Sprintf("has the host %.40q", host))
		}
	}
	for _, p := range parts {
		if !partPattern.MatchString(p) {
			return wrong(fmt.Sprintf("has the part %.40q", p))
		}
	}
	if tagged && !tagPattern.MatchString(tag) || strings.Contains(tag, "/") {
		return wrong(fmt.Sprintf("has the tag %.40q", tag))
	}
	s := Source{Kind: OCI, Name: name + ":" + tag}
	end := ":" + tag
	if pinned {
		end = "@" + digest
		s.Name = name + ":latest"
	}
	switch {
	case host != "":
		s.Reference = host + "/" + strings.Join(parts, "/") + end
	case len(parts) == 1:
		s.Reference = h.Ollama + "/library/" + parts[0] + end
	case len(parts) == 2:
		s.Reference = h.Ollama + "/" + parts[0] + "/" + parts[1] + end
	default:
		return wrong("has three parts and no host")
	}
	return s, nil
}

func (h *Hub) parseURL(text string, wrong func(string) (Source, error)) (Source, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return wrong("is no URL")
	}
	if u.User != nil {
		return wrong("has a password in it, which would be kept; use a URL without")
	}
	// A page or a file of Hugging Face's hub has checksums there.
	if base, err := url.Parse(h.HuggingFace); err == nil && (u.Host == base.Host || u.Host == "huggingface.co" || u.Host == "hf.co") {
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		switch {
		case len(parts) == 2:
			return parseRepository(strings.Join(parts, "/"), wrong)
		case len(parts) > 4 && (parts[2] == "resolve" || parts[2] == "blob") && parts[3] == "main":
			return parseRepository(strings.Join(parts[:2], "/")+":"+strings.Join(parts[4:], "/"), wrong)
		}
	}
	name := strings.TrimSuffix(path.Base(u.Path), ".gguf")
	if !partPattern.MatchString(name) {
		return wrong("does not end with the name of a file")
	}
	return Source{Kind: URL, Name: name + ":latest", URL: text}, nil
}

func parseRepository(text string, wrong func(string) (Source, error)) (Source, error) {
	repository, tag, tagged := strings.Cut(text, ":")
	parts := strings.Split(repository, "/")
	if len(parts) != 2 || !partPattern.MatchString(parts[0]) || !partPattern.MatchString(parts[1]) {
		return wrong("has no ORG/REPO after the host")
	}
	if tagged && (!tagPattern.MatchString(tag) || strings.Contains(tag, "..")) {
		return wrong(fmt.Sprintf("has the tag %.40q", tag))
	}
	s := Source{Kind: HuggingFace, Repository: repository, Tag: tag}
	if tag == "latest" {
		s.Tag = ""
	}
	s.Name = "hf.co/" + repository + ":" + cmp.Or(strings.TrimSuffix(path.Base(s.Tag), ".gguf"), "latest")
	if s.Tag == "" {
		s.Name = "hf.co/" + repository + ":latest"
	}
	return s, nil
}
