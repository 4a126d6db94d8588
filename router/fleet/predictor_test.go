package fleet

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"weir/internal/inference"
	"weir/internal/memory"
	"weir/internal/reference"
	"weir/internal/tensor"
	"weir/router"
	"weir/router/balance"
)

// wrongPredictions are what a server of classical models may answer under 200, what the fault is, and what a caller reads
// where no other server answers.
var wrongPredictions = map[string]struct {
	answer string
	fault  Fault
	tells  string
}{
	"html":            {"<html>Welcome to nginx!</html>", BadAnswer, "bad_answer"},
	"torn":            {`{"outputs":[{"name":"y"`, BadAnswer, "bad_answer"},
	"no outputs":      {`{"outputs":[]}`, BadAnswer, "it has no outputs"},
	"error under 200": {`{"error":"out of memory"}`, ServerError, "out of memory"},
	"too few rows":    {`{"outputs":[{"name":"y","datatype":"FP32","shape":[1,1],"data":[1]}]}`, BadAnswer, "has 1 rows for 2"},
	"too many rows":   {`{"outputs":[{"name":"y","datatype":"FP32","shape":[3,1],"data":[1,2,3]}]}`, BadAnswer, "has 3 rows for 2"},
	"another shape":   {`{"outputs":[{"name":"y","datatype":"FP32","shape":[2],"data":[1,2]}]}`, BadAnswer, "with shape [2]"},
	"another type":    {`{"outputs":[{"name":"y","datatype":"INT64","shape":[2,1],"data":[1,2]}]}`, BadAnswer, "is INT64"},
	"another name":    {`{"outputs":[{"name":"z","datatype":"FP32","shape":[2,1],"data":[1,2]}]}`, BadAnswer, `output "y" is missing`},
}

// predictServer is a server of one model, of which kind says what it does wrong: a status, or one of wrongPredictions.
func predictServer(t *testing.T, kind string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(kind)
		switch wrong, ok := wrongPredictions[kind]; {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"name":"m","platform":"p","inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1,1]}]}`)
		case err == nil:
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>"+kind+"</html>")
		case ok:
			_, _ = io.WriteString(w, wrong.answer)
		default:
			_, _ = io.WriteString(w, `{"outputs":[{"name":"y","datatype":"FP32","shape":[2,1],"data":[1,2]}]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func predictorOf(t *testing.T, policy balance.Policy, urls ...string) *Predictor {
	t.Helper()
	c := Config{Balance: balance.Config{Policy: policy}}
	for _, u := range urls {
		c.Sources = append(c.Sources, Source{URL: u, Kind: OIP})
	}
	p := NewPredictor(fleetOf(t, c))
	p.Look(t.Context())
	return p
}

func predict(t *testing.T, p *Predictor) (*router.Prediction, error) {
	t.Helper()
	q := &router.Prediction{Inputs: []tensor.Tensor{tensor.Of("x", tensor.Float32, []int64{2, 2}, []float32{1, 2, 3, 4})}, Wanted: []string{"y"}}
	return q, p.Predict(t.Context(), q)
}

// TestOneBrokenPredictorHarmsNoOne: the table of faults holds for predictions: whatever one server of three does, callers get
// the others' rows, and the broken one is found out. Alone it is named by its fault, and no page of it reaches a caller.
func TestOneBrokenPredictorHarmsNoOne(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	kinds := map[string]Fault{"401": Misconfigured, "403": Misconfigured, "404": Misconfigured, "413": TooLarge, "429": Throttled, "500": ServerError, "502": ServerError}
	tells := map[string]string{
		"401": "refuses this server's credential (status 401)", "403": "credential (status 403)", "404": "does not know the model", "413": "so large a request (status 413)",
		"429": "takes no more requests for now (status 429)", "500": "failed (status 500)", "502": "failed (status 502)",
	}
	for kind, w := range wrongPredictions {
		kinds[kind], tells[kind] = w.fault, w.tells
	}
	for kind, fault := range kinds {
		for _, policy := range policies {
			t.Run(fmt.Sprint(kind, "/", policy), func(t *testing.T) {
				broken := predictServer(t, kind)
				p := predictorOf(t, policy, predictServer(t, ""), broken, predictServer(t, ""))
				for n := range 50 {
					if q, err := predict(t, p); err != nil || len(q.Outputs) != 1 || q.Outputs[0].Shape[0] != 2 {
						t.Fatalf("prediction %d: %v %+v", n, err, q.Outputs)
					}
				}
				for _, s := range p.fleet.Status() {
					asked := s.Requests
					if is := "http://"+s.ID == broken; is && (s.Faults[fault.String()] != asked || asked > 5) || !is && len(s.Faults) > 0 {
						t.Errorf("%s was asked %d times, and has %v, want %s", s.ID, asked, s.Faults, fault)
					}
				}
			})
		}
		p := predictorOf(t, balance.Prefix, predictServer(t, kind))
		_, err := predict(t, p)
		if err == nil || strings.Contains(err.Error(), "<html") || !strings.Contains(err.Error(), tells[kind]) {
			t.Errorf("%s alone: %v, want %q", kind, err, tells[kind])
		}
		if refused := kind == "413" || kind == "429"; errors.Is(err, inference.ErrUnavailable) == refused {
			t.Errorf("%s alone: %v", kind, err)
		}
	}
}

// Outputs for which this server never has memory are a refusal that is not tried again, and the server that gave them is not blamed.
func TestOutputsThatNeverFit(t *testing.T) {
	p := predictorOf(t, balance.Prefix, predictServer(t, ""))
	p.fleet.config.Bodies = memory.New(1)
	_, err := predict(t, p)
	if !errors.Is(err, inference.ErrNeverFits) || errors.Is(err, inference.ErrUnavailable) || !strings.Contains(err.Error(), "--http-body-memory-bytes") {
		t.Errorf("%v, want %v", err, inference.ErrNeverFits)
	}
	if s := p.fleet.Status()[0]; s.Breaker != "closed" || s.Faults["oversized"] != 1 {
		t.Errorf("%s is %s, with faults %v", s.ID, s.Breaker, s.Faults)
	}
}
