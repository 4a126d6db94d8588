package predict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"weir/api/edge"
	"weir/api/predict/oip"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// versioned are models of which a rollout chooses: users and ids that begin with x get version 4 (weir's own ids are hexadecimal).
type versioned struct{ *models }

func (versioned) Choose(_ string, by router.StickyKey) (version string, arm router.Arm) {
	if strings.HasPrefix(by.User, "x") || by.User == "" && strings.HasPrefix(by.Request, "x") {
		return "4", router.Arm{Rollout: "r", Name: "candidate"}
	}
	return "3", router.Arm{Rollout: "r", Name: "stable"}
}

// seen is what a prediction and its hooks had.
type seen struct {
	mu               sync.Mutex
	id, version, arm string // of the prediction
	hooks            []string
}

func (s *seen) watch(f *fake) *fake {
	do := f.do
	f.do = func(ctx context.Context, p *router.Prediction) error {
		s.mu.Lock()
		s.id, s.version, s.arm = p.ID, f.about.Version, p.Arm
		s.mu.Unlock()
		return do(ctx, p)
	}
	return f
}

func (s *seen) config(c Config) Config {
	note := func(id, version, arm string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hooks = append(s.hooks, fmt.Sprint(id, " ", version, " ", arm))
	}
	c.Hooks = edge.Hooks{
		OnRequestStart:  func(r edge.RequestStart) { note(r.ID, r.Version, r.Arm.Name) },
		OnRequestFinish: func(r edge.RequestFinish) { note(r.ID, r.Version, r.Arm.Name) },
		OnRefused:       func(r edge.Refusal) { note(r.ID, r.Version, r.Arm.Name) },
	}
	return c
}

// check wants one id, version and arm in the answer, the prediction and every hook.
func (s *seen) check(t *testing.T, id, version, arm string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != id || s.version != version || s.arm != arm {
		t.Errorf("the prediction has the id %q, version %q, arm %q; the answer %q, %q, %q", s.id, s.version, s.arm, id, version, arm)
	}
	for _, h := range s.hooks {
		if h != fmt.Sprint(id, " ", version, " ", arm) {
			t.Errorf("a hook has %q, the answer %q, %q, %q", h, id, version, arm)
		}
	}
	if len(s.hooks) == 0 {
		t.Error("no hook was called")
	}
	s.hooks = nil
}

func rollingSums(s *seen) *models {
	stable, candidate := sums(), sums()
	candidate.about.Version = "4"
	for _, f := range []*fake{stable, candidate} {
		f.about.Entity = []string{"plant", "bed"}
		f.about.Optional = []tensor.Spec{{Name: "plant", Type: tensor.Bytes, Shape: []int64{-1}}, {Name: "bed", Type: tensor.Int64, Shape: []int64{-1}}}
		s.watch(f)
	}
	return newModels(stable, candidate)
}

const sumInput = `{"name":"input","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}`

// A request has one id, version and arm wherever it is named: in the answer, the prediction (and so its log), and the hooks (the
// server's log, traces, rollouts).
func TestOneIdentityOverHTTP(t *testing.T) {
	var s seen
	c := s.config(config(t, nil))
	c.Models = versioned{rollingSums(&s)}
	r := newRig(t, c)
	v2 := func(more string) string { return `{` + more + `"inputs":[` + sumInput + `]}` }
	const entity = `{"name":"plant","shape":[1],"datatype":"BYTES","data":["xanthium"]},{"name":"bed","shape":[1],"datatype":"INT64","data":[7]},`
	for _, x := range []struct {
		what, path, body, id, version string
		fields                        []string
	}{
		{"the header", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`, "my-1", "3", []string{"X-Request-Id", "my-1"}},
		{"the header, of the candidate's share", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`, "x-1", "4", []string{"X-Request-Id", "x-1"}},
		{"V2's id", "/v2/models/sums/infer", v2(`"id":"mine",`), "mine", "3", nil},
		{"V2's id, of the candidate's share", "/v2/models/sums/infer", v2(`"id":"x-mine",`), "x-mine", "4", nil},
		{"the header before V2's id", "/v2/models/sums/infer", v2(`"id":"x-mine",`), "a-1", "3", []string{"X-Request-Id", "a-1"}},
		{"a V2 id that no header can carry", "/v2/models/sums/infer", v2(`"id":"x \u00fc",`), "", "3", nil},
		{"none", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`, "", "3", nil},
		{"a user in the header", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`, "a-1", "4", []string{"X-Request-Id", "a-1", "X-Weir-User", "xavier"}},
		{"a user in V2's parameters", "/v2/models/sums/infer", v2(`"parameters":{"user":"xavier"},`), "", "4", nil},
		{"the header's user before V2's", "/v2/models/sums/infer", v2(`"parameters":{"user":"xavier"},`), "", "3", []string{"X-Weir-User", "ann"}},
		{"the entity", "/v2/models/sums/infer", `{"inputs":[` + sumInput + `,` + strings.TrimSuffix(entity, ",") + `]}`, "", "4", nil},
		{"the entity in V1", "/v1/models/sums:predict", `{"inputs":{"input":[[1,2,3,4]],"plant":["xanthium"],"bed":[7]}}`, "", "4", nil},
		{"a user before the entity", "/v2/models/sums/infer", `{"inputs":[` + sumInput + `,` + strings.TrimSuffix(entity, ",") + `]}`, "", "3", []string{"X-Weir-User", "ann"}},
		{"a part of the entity", "/v1/models/sums:predict", `{"inputs":{"input":[[1,2,3,4]],"plant":["xanthium"]}}`, "", "3", nil},
		{"a named version", "/v1/models/sums/versions/3:predict", `{"instances":[[1,2,3,4]]}`, "x-1", "3", []string{"X-Request-Id", "x-1"}},
	} {
		t.Run(x.what, func(t *testing.T) {
			res, got := r.do("POST", x.path, x.body, x.fields...)
			id, version, arm := res.Header.Get("X-Request-Id"), res.Header.Get("X-Weir-Version"), res.Header.Get("X-Weir-Arm")
			want := map[string]string{"3": "stable", "4": "candidate"}[x.version]
			if strings.Contains(x.path, "versions") {
				want = ""
			}
			if res.StatusCode != statusOK || x.id != "" && id != x.id || id == "" || version != x.version || arm != want {
				t.Errorf("%d %s: id %q, version %q, arm %q; want %q, %q, %q", res.StatusCode, got, id, version, arm, x.id, x.version, want)
			}
			s.check(t, id, version, arm)
		})
	}
	// What the candidate refuses the stable version is asked, too, and its refusal is the answer.
	res, got := r.do("POST", "/v1/models/sums:predict", `{"instances":[[1,2]]}`, "X-Request-Id", "x-1")
	if res.StatusCode != 400 || res.Header.Get("X-Request-Id") != "x-1" || res.Header.Get("X-Weir-Version") != "3" || res.Header.Get("X-Weir-Arm") != "" {
		t.Errorf("a refused request: %d %s %v", res.StatusCode, got, res.Header)
	}
	s.mu.Lock()
	candidates := s.hooks[:2]
	s.hooks = s.hooks[2:]
	s.mu.Unlock()
	if want := "x-1 4 candidate"; candidates[0] != want || candidates[1] != want {
		t.Errorf("the hooks had %q before", candidates)
	}
	s.check(t, "x-1", "3", "")
	if res, got := r.do("POST", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`, "X-Weir-User", strings.Repeat("x", 257)); res.StatusCode != 400 {
		t.Errorf("a long user: %d %s", res.StatusCode, got)
	}
}

// The V1 body of a user's request is read for the version that the user gets, also where the two take other inputs.
func TestABodyIsReadForTheChosenVersion(t *testing.T) {
	var s seen
	stable, candidate := sums(), sums()
	candidate.about.Version = "4"
	candidate.about.Inputs = []tensor.Spec{{Name: "input", Type: tensor.Float64, Shape: []int64{tensor.Any, 4}}}
	candidate.do = func(_ context.Context, p *router.Prediction) error {
		p.Outputs = []tensor.Tensor{tensor.Of("output", tensor.Float64, []int64{1}, tensor.Values[float64](&p.Inputs[0])[:1])}
		return nil
	}
	for _, f := range []*fake{stable, candidate} {
		f.about.Entity, f.about.Optional = []string{"plant"}, []tensor.Spec{{Name: "plant", Type: tensor.Bytes, Shape: []int64{-1}}}
		s.watch(f)
	}
	c := s.config(config(t, nil))
	c.Models = versioned{newModels(stable, candidate)}
	r := newRig(t, c)
	res, got := r.do("POST", "/v1/models/sums:predict", `{"inputs":{"input":[[0.1,2,3,4]],"plant":["xanthium"]}}`)
	if res.StatusCode != statusOK || got != `{"outputs":[0.1]}` {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

func TestOneIdentityOverGRPC(t *testing.T) {
	var s seen
	c := s.config(config(t, nil))
	c.Models = versioned{rollingSums(&s)}
	_, _, client := dial(t, c)
	for _, x := range []struct {
		what, id, version string
		message           string // its id
		user              string // parameter
		fields            []string
	}{
		{"metadata", "my-1", "3", "", "", []string{"x-request-id", "my-1"}},
		{"the message's id", "x-7", "4", "x-7", "", nil},
		{"metadata before the message's id", "my-1", "3", "x-7", "", []string{"x-request-id", "my-1"}},
		{"none", "", "3", "", "", nil},
		{"a user in metadata", "my-1", "4", "my-1", "", []string{"x-weir-user", "xavier"}},
		{"a user in the parameters", "my-1", "4", "my-1", "xavier", nil},
	} {
		t.Run(x.what, func(t *testing.T) {
			q := sumRequest(1, 2, 3, 4)
			q.Id = x.message
			if x.user != "" {
				q.Parameters = map[string]*oip.InferParameter{"user": {ParameterChoice: &oip.InferParameter_StringParam{StringParam: x.user}}}
			}
			var head metadata.MD
			answer, err := client.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), x.fields...), q, grpc.Header(&head))
			if err != nil {
				t.Fatal(err)
			}
			field := func(name string) string { return strings.Join(head.Get(name), ",") }
			id, version, arm := field("x-request-id"), field("x-weir-version"), field("x-weir-arm")
			if x.id != "" && id != x.id || id == "" || version != x.version || answer.GetModelVersion() != version ||
				answer.GetParameters()["arm"].GetStringParam() != arm || answer.GetId() != x.message {
				t.Errorf("id %q, version %q, arm %q in %v and %v", id, version, arm, head, answer)
			}
			s.check(t, id, version, arm)
		})
	}
	stream, err := client.ModelStreamInfer(metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "of-the-stream"))
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"x-1", "a-1", "", ""} {
		q := sumRequest(1, 2, 3, 4)
		q.Id = own
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || answer.GetErrorMessage() != "" {
			t.Fatal(err, answer)
		}
		got := answer.GetInferResponse()
		if own != "" && got.GetId() != own || got.GetId() == "" || got.GetId() == "of-the-stream" {
			t.Errorf("a message of the id %q was answered as %q", own, got.GetId())
		}
		s.check(t, got.GetId(), got.GetModelVersion(), got.GetParameters()["arm"].GetStringParam())
	}
}

// Spare implements router.Chooser.
func (versioned) Spare(_ string, arm router.Arm) (version string, may bool) {
	return "3", arm.Name == "candidate"
}

// Lost implements router.Chooser.
func (v versioned) Lost(model string, _ error) { v.note("lost "+model, "a reload") }

// TestAnotherVersionAnswersForOneThatIsLost has a rollout choose a version that a reload has taken away: that which answers by default
// scores the request, in no arm, and the rollout hears of it.
func TestAnotherVersionAnswersForOneThatIsLost(t *testing.T) {
	var s seen
	models := rollingSums(&s)
	models.list = slices.DeleteFunc(models.list, func(f *fake) bool { return f.about.Version == "4" })
	c := s.config(config(t, models))
	c.Models = versioned{models}
	r := newRig(t, c)
	res, text := r.do("POST", "/v2/models/sums/infer", `{"id":"x-1","inputs":[`+sumInput+`]}`)
	if head := res.Header; res.StatusCode != statusOK || head.Get("X-Weir-Version") != "3" || head.Get("X-Weir-Arm") != "" {
		t.Errorf("%d %v %s", res.StatusCode, head, text)
	}
	models.mu.Lock()
	defer models.mu.Unlock()
	if !slices.Contains(models.asked, "lost sums by a reload") {
		t.Errorf("the rollout does not hear of it: %q", models.asked)
	}
}

// What the candidate of a rollout fails, the stable version answers, in no arm.
func TestTheStableVersionScoresWhatTheCandidateFails(t *testing.T) {
	for _, bad := range []error{inference.ErrInternal, inference.ErrInvalid, inference.ErrUnavailable, inference.ErrTenantQueueFull} {
		var s seen
		models := rollingSums(&s)
		for _, f := range models.list {
			if f.about.Version == "4" {
				f.do = func(context.Context, *router.Prediction) error { return bad }
			}
		}
		c := s.config(config(t, nil))
		c.Models = versioned{models}
		r := newRig(t, c)
		res, text := r.do("POST", "/v2/models/sums/infer", `{"id":"x-1","inputs":[`+sumInput+`]}`)
		if head := res.Header; res.StatusCode != statusOK || head.Get("X-Weir-Version") != "3" || head.Get("X-Weir-Arm") != "" || !strings.Contains(text, "10") {
			t.Errorf("%v: %d %v %s", bad, res.StatusCode, head, text)
		}
		s.mu.Lock()
		if want := []string{"x-1 4 candidate", "x-1 4 candidate", "x-1 3 ", "x-1 3 "}; !slices.Equal(s.hooks, want) || s.arm != "" || s.version != "3" {
			t.Errorf("%v: hooks %q, want %q; the prediction's arm is %q, its version %q", bad, s.hooks, want, s.arm, s.version)
		}
		s.mu.Unlock()
		// A request that names its version has that one.
		if res, text = r.do("POST", "/v2/models/sums/versions/4/infer", `{"id":"x-1","inputs":[`+sumInput+`]}`); res.StatusCode == statusOK {
			t.Errorf("%v: %s", bad, text)
		}
	}
}

// Over gRPC, too, the stable version answers what the candidate fails, single requests and messages of a stream.
func TestTheStableVersionScoresWhatTheCandidateFailsOverGRPC(t *testing.T) {
	for _, bad := range []error{inference.ErrInternal, inference.ErrInvalid, inference.ErrUnavailable, inference.ErrTenantQueueFull} {
		var s seen
		models := rollingSums(&s)
		for _, f := range models.list {
			if f.about.Version == "4" {
				f.do = func(context.Context, *router.Prediction) error { return bad }
			}
		}
		c := s.config(config(t, nil))
		c.Models = versioned{models}
		_, _, client := dial(t, c)
		spared := func(answer *oip.ModelInferResponse, err error) {
			t.Helper()
			if err != nil || answer.GetModelVersion() != "3" || answer.GetParameters()["arm"].GetStringParam() != "" || len(answer.GetOutputs()) != 1 {
				t.Errorf("%v: %v %v", bad, answer, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if want := []string{"x-1 4 candidate", "x-1 4 candidate", "x-1 3 ", "x-1 3 "}; !slices.Equal(s.hooks, want) || s.arm != "" || s.version != "3" {
				t.Errorf("%v: hooks %q, want %q; the prediction's arm is %q, its version %q", bad, s.hooks, want, s.arm, s.version)
			}
			s.hooks = nil
		}
		q := sumRequest(1, 2, 3, 4)
		q.Id = "x-1"
		spared(client.ModelInfer(t.Context(), q))
		stream, err := client.ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := stream.Send(q); err != nil {
				t.Fatal(err)
			}
			answer, err := stream.Recv()
			if answer.GetErrorMessage() != "" {
				err = errors.New(answer.GetErrorMessage())
			}
			spared(answer.GetInferResponse(), err)
		}
		q.ModelVersion = "4" // a request that names its version has that one
		if answer, err := client.ModelInfer(t.Context(), q); err == nil {
			t.Errorf("%v: %v", bad, answer)
		}
	}
}
