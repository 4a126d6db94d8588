package openai

import (
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/edge"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// seenWork gathers what OnWork is told.
type seenWork struct {
	mu   sync.Mutex
	list []edge.Work
}

func (s *seenWork) add(w edge.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, w)
}

// What is computed beside the engine is told with its tenant, model and time, of whatever endpoint, also where the request is
// refused in the end; of an answer its finish tells it, too.
func TestWorkBesideTheEngineIsTold(t *testing.T) {
	c, seen, finished := DefaultConfig(), &seenWork{}, make(chan edge.RequestFinish, 1)
	c.Hooks.OnWork = seen.add
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	text := strings.Repeat("Hello world ", 200)
	chat := `{"messages":[{"role":"user","content":"` + text + `"}]`
	for _, ask := range []struct {
		path, body string
		status     int
	}{
		{routeTokenize, `{"prompt":"` + text + `"}`, 200}, {routeTokenize, chat + `}`, 200}, {routeTemplate, chat + `}`, 200},
		{routeDetokenize, `{"tokens":[1,2,3]}`, 200}, {routeCount, chat + `,"max_tokens":1}`, 200},
		{routeChat, `{"messages":[{"role":"user","content":"Hello"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"nonsense"}}}}`, 400},
		{routeChat, `{"messages":[{"role":"user","content":"Hello"}]}`, 200},
	} {
		seen.list = nil
		res, body := r.do("POST", ask.path, "", ask.body)
		if res.StatusCode != ask.status {
			t.Fatalf("%s: %d %s", ask.path, res.StatusCode, body)
		}
		started := ask.path == routeChat && ask.status == 200
		if len(seen.list) != 1 || seen.list[0].Took <= 0 || seen.list[0].Took > time.Minute || seen.list[0].Model == "" || seen.list[0].Tenant == nil || seen.list[0].Started != started {
			t.Errorf("%s: %+v", ask.path, seen.list)
		}
	}
	if f := <-finished; f.Compute < seen.list[0].Took {
		t.Errorf("the finish tells %v of %v", f.Compute, seen.list[0].Took)
	}
	seen.list = nil
	if r.do("GET", routeModels, "", ""); len(seen.list) != 0 {
		t.Errorf("%+v", seen.list)
	}
}

// What an error of the client's own ends is charged as far as it was computed; what an error of the server ends is not. The
// same tokens and cost are in the bill and in the finish.
func TestWhatIsChargedOfAnswersThatFail(t *testing.T) {
	for _, tc := range []struct {
		err     error
		code    string
		charged bool
	}{
		{inference.ErrFormatTooComplex, "format_too_complex", true},
		{inference.ErrDeadline, "deadline_exceeded", true},
		{inference.ErrInternal, "internal_error", false},
		{inference.ErrUnavailable, "engine_unavailable", false},
	} {
		for _, stream := range []string{`}`, `,"stream":true}`} {
			limits := quota.Limits{DailyTokens: 1000, DailyCost: 1000, RequestsPerMinute: 9}
			c, m := limited(limits)
			finished := make(chan edge.RequestFinish, 1)
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
			r := newRig(t, c, &fakeBackend{script: func(r *fakeRun) {
				r.token(0, 65)
				r.token(0, 66)
				r.stream.Close(tc.err)
			}})
			model := testModel(t, r.backend)
			model.Price = quota.Price{Input: 1e6, Output: 1e6}
			if err := r.openai.SetModels(model); err != nil {
				t.Fatal(err)
			}
			_, text := r.do("POST", routeCompletions, "", helloPrompt+stream)
			f := <-finished
			want := int64(0)
			if tc.charged {
				want = 3
			}
			st, err := m.Standings(quota.Holder{Limits: &limits})
			if err != nil || !strings.Contains(text, tc.code) || f.Charged() != tc.charged || int64(f.Cost) != want || st[0].Used != 1 || st[1].Used != want || st[2].Used != want {
				t.Errorf("%s: charged %v, cost %v, %+v: %s", tc.code, f.Charged(), f.Cost, st, text)
			}
			r.close()
		}
	}
}
