package bench

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"weir/api/predict/oip"
	"weir/internal/reference"
)

// rowServer answers all protocols and keeps one body of each.
type rowServer struct {
	oip.UnimplementedGRPCInferenceServiceServer
	mu     sync.Mutex
	bodies map[string]string
	pause  time.Duration
	fail   bool
}

func (s *rowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/v2/models":
		_, _ = io.WriteString(w, `{"models":["trees"]}`)
		return
	case "/v2/models/trees":
		_, _ = io.WriteString(w, `{"inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}]}`)
		return
	}
	s.mu.Lock()
	s.bodies[r.URL.Path+r.Header.Get("Inference-Header-Content-Length")] = string(body)
	fail, pause := s.fail, s.pause
	s.mu.Unlock()
	time.Sleep(pause)
	if fail {
		http.Error(w, `{"error":"no"}`, http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, `{}`)
}

func (s *rowServer) ModelInfer(_ context.Context, q *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies["grpc"] = strconv.Itoa(len(q.GetRawInputContents()[0])) + q.GetModelName() + q.GetInputs()[0].GetName()
	return &oip.ModelInferResponse{}, nil
}

func TestPredictLoads(t *testing.T) {
	reference.Slow(t)
	s := &rowServer{bodies: map[string]string{}}
	web := httptest.NewServer(s)
	defer web.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	oip.RegisterGRPCInferenceServiceServer(g, s)
	go func() { _ = g.Serve(ln) }()
	defer g.Stop()
	target := PredictTarget{URL: web.URL, GRPC: ln.Addr().String()}
	if err := target.Describe(t.Context()); err != nil || target.Model != "trees" || target.Input != "x" || target.Columns != 3 {
		t.Fatalf("%+v, %v", target, err)
	}
	for _, protocol := range []string{PredictV1, PredictV2, PredictBinary, PredictGRPC} {
		for _, rate := range []float64{0, 500} {
			run, err := RunPredict(t.Context(), target, PredictLoad{Protocol: protocol, Rows: 2, Connections: 2, Rate: rate, Duration: 100 * time.Millisecond})
			if err != nil || run.Errors > 0 || run.Requests < 1 || run.P50 <= 0 || run.P99 < run.P50 || run.Max < run.P999 {
				t.Errorf("%s at rate %v: %+v, %v", protocol, rate, run, err)
			}
			if rate > 0 && run.Requests != 50 {
				t.Errorf("%s: %d requests at rate %v", protocol, run.Requests, rate)
			}
		}
	}
	var v1 struct{ Instances [][]float32 }
	if err := json.Unmarshal([]byte(s.bodies["/v1/models/trees:predict"]), &v1); err != nil || len(v1.Instances) != 2 || len(v1.Instances[1]) != 3 {
		t.Errorf("V1: %v, %q", err, s.bodies)
	}
	type infer struct {
		Inputs []struct {
			Name  string
			Shape []int
			Data  []float32
		}
	}
	var v2, binary infer
	if err := json.Unmarshal([]byte(s.bodies["/v2/models/trees/infer"]), &v2); err != nil || len(v2.Inputs[0].Data) != 6 || v2.Inputs[0].Shape[0] != 2 {
		t.Errorf("V2: %v, %q", err, s.bodies)
	}
	for path, body := range s.bodies {
		if length, ok := strings.CutPrefix(path, "/v2/models/trees/infer"); ok && length != "" {
			n, _ := strconv.Atoi(length)
			if err := json.Unmarshal([]byte(body[:n]), &binary); err != nil || len(body)-n != 24 {
				t.Errorf("binary: %v, %q", err, body)
			}
		}
	}
	if s.bodies["grpc"] != "24treesx" || len(binary.Inputs) != 1 {
		t.Errorf("%q", s.bodies)
	}
}

// A rate counts from when a request was due: one that waits for a busy connection is
// late, and a server that refuses is no success.
func TestPredictRateIsOpenLoop(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	s := &rowServer{bodies: map[string]string{}, pause: 20 * time.Millisecond}
	web := httptest.NewServer(s)
	defer web.Close()
	target := PredictTarget{URL: web.URL, Model: "trees", Input: "x", Columns: 3}
	load := PredictLoad{Protocol: PredictV1, Rows: 1, Connections: 1, Rate: 200, Duration: 200 * time.Millisecond}
	run, err := RunPredict(t.Context(), target, load)
	if err != nil || run.Max < 300 || run.PerSecond > 60 {
		t.Errorf("40 requests in 0.2 s of 20 ms each, one at a time: %+v, %v", run, err)
	}
	s.pause = time.Millisecond
	best, runs, err := SearchPredict(t.Context(), target, load, 5)
	if err != nil || best.P99 > 5 || len(runs) != 1+searchSteps || best.Rate > runs[0].PerSecond {
		t.Errorf("a search: %+v of %+v, %v", best, runs, err)
	}
	s.fail = true
	run, err = RunPredict(t.Context(), target, load)
	if err != nil || run.Errors != run.Requests || run.FirstError == nil || run.PerSecond != 0 {
		t.Errorf("%+v, %v", run, err)
	}
	best, runs, err = SearchPredict(t.Context(), target, load, 5)
	if err == nil || best.Requests != 0 || len(runs) != 1 {
		t.Errorf("a search on a server that refuses: %+v, %d runs, %v", best, len(runs), err)
	}
}
