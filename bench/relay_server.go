package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// fakeServer is a server of streams that computes nothing: tokens of fixed text, each written for itself. A request's message says how many
// there are and how many microseconds lie between two of them.
type fakeServer struct {
	urls   []string // at each of its addresses
	server *http.Server
	over   chan error
}

// fakeServerEnd is how its streams end.
const fakeServerEnd = "data: [DONE]\n\n"

// standInEvent is a token as chat completions stream it.
const standInEvent = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"chat","system_fingerprint":"fp_0123456789",` +
	`"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

func newStandIn() (*fakeServer, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"chat","object":"model"}]}`) // who asks may have gone
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST "+EndpointChat, serveStandIn)
	s := &fakeServer{server: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, over: make(chan error, standInAddresses)}
	for range standInAddresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.urls = append(s.urls, "http://"+l.Addr().String())
		go func() { s.over <- s.server.Serve(l) }()
	}
	return s, nil
}

// standInAddresses are so many that a router has replicas to pick from.
const standInAddresses = 2

func (s *fakeServer) close() error {
	err := s.server.Close()
	for range s.urls {
		if e := <-s.over; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func serveStandIn(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []message `json:"messages"`
	}
	var tokens, micros int
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	if _, err := fmt.Sscanf(asked.Messages[0].Content, "%d %d", &tokens, &micros); err != nil || tokens < 1 || micros < 0 {
		http.Error(w, "the message must be two numbers", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out, gap, began := http.NewResponseController(w), time.Duration(micros)*time.Microsecond, time.Now()
	for i := range tokens {
		time.Sleep(time.Until(began.Add(time.Duration(i) * gap)))
		text := standInEvent
		if i == tokens-1 {
			text = `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + fakeServerEnd
		}
		if _, err := io.WriteString(w, text); err != nil || out.Flush() != nil {
			return
		}
	}
}

// plainProxy is a proxy that knows nothing of what it passes on.
type plainProxy struct {
	name   string
	path   string                               // of its executable
	config func(folder, from, to string) string // that passes what comes to one address on to another
	flags  []string                             // before the configuration's path
}

// nginxConfig is one worker without buffers and logs, which keeps connections.
func nginxConfig(folder, from, to string) string {
	return fmt.Sprintf(`daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  upstream server { server %[3]s; keepalive 256; }
  server {
    listen %[2]s;
    location / { proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 60s; }
  }
}
`, folder, from, to)
}

// haproxyConfig is one thread that passes bytes on as they come.
func haproxyConfig(_, from, to string) string {
	return fmt.Sprintf(`global
  maxconn 4096
  nbthread 1
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend in
  bind %s
  default_backend out
backend out
  server one %s
`, from, to)
}

// start runs the proxy before the stand-in.
func (p *plainProxy) start(ctx context.Context, r *relayRun) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	from := fmt.Sprintf("127.0.0.1:%d", port)
	file := filepath.Join(r.folder, p.name+".conf")
	if err := os.WriteFile(file, []byte(p.config(r.folder, from, r.standIn.urls[0][len("http://"):])), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(p.path, append(p.flags, file)...) //nolint:gosec,noctx // the caller names it, and stop ends it
	cmd.Stdout, cmd.Stderr = r.o.Log, r.o.Log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	started := &process{cmd: cmd, url: "http://" + from, over: make(chan error, 1)}
	go func() { started.over <- cmd.Wait() }()
	for late := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", from) //nolint:noctx // on loopback
		if err == nil {
			return started, conn.Close()
		}
		select {
		case err := <-started.over:
			started.over <- err
			return nil, fmt.Errorf("%s ended before it served (%w); --log shows why", p.name, err)
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), started.kill())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(late) {
			return nil, errors.Join(fmt.Errorf("%s does not serve: %w", p.name, err), started.kill())
		}
	}
}
