package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/socket"
	"weir/router"
	"weir/router/provider"
)

// DefaultAnswerTimeout is that of OpenAI's clients.
const DefaultAnswerTimeout = 10 * time.Minute

// endpoint is the way to one server: its address, the key, and the connections.
type endpoint struct {
	base     *url.URL // as OpenAI's clients have it: "http://10.0.0.7:8000/v1"
	key      string   // sent as a bearer token; "" is none
	client   *http.Client
	provider provider.API // says how the key is sent instead, and that nothing of this server's own is; nil: none
	direct   *transport   // the client's

	mu   sync.Mutex
	urls map[string]*url.URL // by path below the base
}

// parseBase reads the base URL of a server of a kind. One without a path has the kind's: /v1, where all engines serve the API.
func parseBase(kind Kind, text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err == nil && base.User != nil: // the text is not shown: it holds a secret
		return nil, fmt.Errorf("base URL of the replica %s: keys do not belong into a URL; set api_key", base.Host)
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("base URL %q of a replica: it must be like http://host:8000/v1", text)
	}
	if port := base.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("base URL %q of a replica: there is no port %s, it must be 1 to 65535", text, port)
		}
	}
	for _, endpoint := range []string{"/chat/completions", "/completions", "/embeddings", "/models", "/responses", "/messages"} {
		if short, found := strings.CutSuffix(strings.TrimSuffix(text, "/"), endpoint); found {
			return nil, fmt.Errorf("base URL %q of a replica ends with an endpoint, which is added for each request: give %s", text, short)
		}
	}
	if strings.Trim(base.Path, "/") == "" {
		base.Path = cmp.Or(kinds[kind].path, "/v1")
	}
	return base, nil
}

// newWire connects to an IP address in place of the URL's host where it is not empty. A server
// gets answerTimeout until its answer begins, which for an answer that is no stream is
// all of it.
func newWire(base *url.URL, address, key string, answerTimeout time.Duration) *endpoint {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	transport := newTransport(func(ctx context.Context, network, to string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(to); address != "" && err == nil && host == base.Hostname() {
			to = net.JoinHostPort(address, port)
		}
		conn, err := dialer.DialContext(ctx, network, to)
		if err != nil {
			return nil, err
		}
		return socket.Quick(conn), nil
	}, answerTimeout)
	return &endpoint{base: base, key: key, direct: transport, urls: make(map[string]*url.URL), client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key goes nowhere else
	}}
}

// close ends the connections that are not used.
func (w *endpoint) close() { w.client.CloseIdleConnections() }

// send posts a JSON object to a path below the base URL and returns when the answer's
// header is there. The caller closes its body. Ending ctx ends the request also at the
// server.
func (w *endpoint) send(ctx context.Context, path string, h *router.Head, header http.Header, body named) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "", body.reader())
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", w.base.Host, err)
	}
	req.URL, req.Host = w.at(path), w.base.Host
	req.ContentLength = body.length()
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body.reader()), nil }
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity") // without it a server may choose, and what it has encoded is no event
	if w.provider == nil {
		h.Write(req.Header)
		w.sign(req)
	} else if err := w.introduce(req, h); err != nil {
		return nil, err
	}
	res, err := w.direct.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", w.base.Host, err)
	}
	return res, nil
}

// at is the URL of a path below the base. There are as many paths as endpoints.
func (w *endpoint) at(path string) *url.URL {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.urls[path]
	if u == nil {
		u = w.base.JoinPath(path)
		w.urls[path] = u
	}
	own := *u // Authorize may add to it
	return &own
}

// infer posts tensors to a classical model in the same way.
func (w *endpoint) infer(ctx context.Context, model string, c *router.Call, header http.Header) (*http.Response, error) {
	address := w.root("/v2/models/" + url.PathEscape(model) + "/infer")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(c.Body))
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", w.base.Host, err)
	}
	maps.Copy(req.Header, header)
	c.Head.Write(req.Header)
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set(headerLength, strconv.Itoa(c.Infer.Header))
	w.sign(req)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", w.base.Host, plain(err))
	}
	return res, nil
}

// get asks for a URL of the server that is not below its base: /health.
func (w *endpoint) get(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	w.sign(req)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	return res, nil
}

const userAgent = "weir"

func (w *endpoint) sign(req *http.Request) {
	req.Header.Set("User-Agent", userAgent)
	if w.key != "" {
		req.Header.Set("Authorization", "Bearer "+w.key)
	}
}

// root is a URL of the server outside of its API: the base without its last /v1.
func (w *endpoint) root(path string) string {
	u := *w.base
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return u.JoinPath(path).String()
}

// plain is an error without what net/http puts around it: the method and the URL.
func plain(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}

// notSent tells errors of connections that never came about: the server has seen
// nothing of the request.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "dial" {
		return true
	}
	_, lookup := errors.AsType[*net.DNSError](err)
	return lookup
}

// named is a JSON object with the name that a server has for the model.
type named struct {
	model string // quoted, and what else is added
	body  []byte // the object without its model
}

// withModel adds a model, and stream_options where there are some.
func withModel(model string, options, body []byte) named {
	quoted, err := json.Marshal(model)
	if err != nil {
		quoted = []byte(`""`) // a string always has a JSON form
	}
	head := `{"model":` + string(quoted)
	if len(options) > 0 {
		head += `,"stream_options":` + string(options)
	}
	if rest := bytes.TrimLeft(body[1:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		head += ","
	}
	return named{model: head, body: body[1:]}
}

func (n named) reader() io.Reader {
	return io.MultiReader(strings.NewReader(n.model), bytes.NewReader(n.body))
}

func (n named) length() int64 { return int64(len(n.model) + len(n.body)) }
