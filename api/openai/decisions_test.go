package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/internal/inference"
)

// measure is a script: the tokens that are given come with a log-probability of -1 for each odd id and -2 for each even one.
func measure(r *fakeRun) {
	for choice, ids := range r.req.Given {
		for _, id := range ids {
			r.stream.Push(inference.Event{Kind: inference.EventToken, Choice: choice, Token: id, Logprob: -2 + float32(id%2)})
		}
		r.finish(choice, inference.FinishStop)
	}
	r.stream.SetProgress(inference.Progress{PrefillTokens: len(r.req.Prompt), CachedTokens: 16})
	r.stream.Close(nil)
}

// deciderRig serves a model with a context of 4096 tokens that measures what it is given.
func deciderRig(t testing.TB, c Config, script func(*fakeRun)) *rig {
	t.Helper()
	b := &fakeBackend{script: script}
	r := newRig(t, c, b)
	m := testModel(t, b)
	m.MaxModelLen = 4096
	if err := r.openai.SetModels(m, testPooler(t, &fakeEmbedder{vector: ofTokens}, false)); err != nil {
		t.Fatal(err)
	}
	return r
}

const twoQuestions = `{"model":"test-model","input":"Hello world","questions":[{"type":"predicate","name":"greets","instructions":"It greets."},` +
	`{"type":"choice","instructions":"Who?","choices":[{"value":"user"},{"value":"assistant"},{"value":"the user"}]}]}`

func TestDecisionsSumUpWholeLabels(t *testing.T) {
	var finish edge.RequestFinish
	c := DefaultConfig()
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finish = f }
	r := deciderRig(t, c, measure)
	defer r.close()
	status, body := r.post(routeDecisions, twoQuestions)
	var a struct {
		Answers []struct {
			Name          *string
			Type          string
			Probability   float64
			Choice        any
			Probabilities []struct{ Probability float64 }
		}
		Usage struct {
			Input, Output int
			Details       struct {
				Cached int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			InputTokens  int `json:"input_tokens"`
			OutputTokens int `json:"output_tokens"`
			TotalTokens  int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 || len(a.Answers) != 2 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	tokens := 0
	for i := range 2 {
		run := r.backend.run(t, i)
		weights, sum := make([]float64, len(run.req.Given)), 0.0
		for k, ids := range run.req.Given {
			log := 0.0
			for _, id := range ids {
				log += -2 + float64(id%2)
			}
			weights[k] = math.Exp(log)
			sum += weights[k]
			if eos, _ := r.backend.tok.EOS(); ids[len(ids)-1] != eos || len(ids) < 2 {
				t.Errorf("option %d is %v; it must end an answer", k, ids)
			}
			tokens += len(ids) - 1
		}
		got := []float64{a.Answers[i].Probability, 1 - a.Answers[i].Probability}
		if i == 1 {
			got = got[:0]
			for _, p := range a.Answers[i].Probabilities {
				got = append(got, p.Probability)
			}
		}
		for k, p := range got {
			if math.Abs(p-weights[k]/sum) > 1e-9 {
				t.Errorf("question %d: option %d has probability %v, want %v", i, k, p, weights[k]/sum)
			}
		}
		if run.req.CacheDomain == "" && i > 1 || run.req.N != len(weights) || run.req.PromptLogprobs != -1 {
			t.Errorf("the engine was asked %+v", run.req)
		}
	}
	one, two := r.backend.run(t, 0).req.Prompt, r.backend.run(t, 1).req.Prompt
	shared := 0
	for shared < min(len(one), len(two)) && one[shared] == two[shared] {
		shared++
	}
	if most := tokens + len(one) + len(two) - shared; a.Usage.InputTokens < most || a.Usage.InputTokens > most+32 || a.Usage.OutputTokens != 0 || a.Usage.TotalTokens != a.Usage.InputTokens || a.Usage.Details.Cached != 16 {
		t.Errorf("usage %+v, want %d tokens of input or a few more, 16 of them cached", a.Usage, most)
	}
	if finish.Status != 200 || finish.PromptTokens != a.Usage.InputTokens || finish.CachedTokens != 16 || finish.Prompts != 2 || finish.Endpoint != routeDecisions || len(finish.Reasons) != 2 {
		t.Errorf("hooks were told %+v", finish)
	}
	if a.Answers[0].Name == nil || *a.Answers[0].Name != "greets" || a.Answers[1].Name != nil {
		t.Errorf("names: %s", body)
	}
}

func TestSystemOneIsTheSameMechanism(t *testing.T) {
	r := deciderRig(t, DefaultConfig(), measure)
	defer r.close()
	_, want := r.post(routeDecisions, `{"model":"test-model","input":"Hello","questions":[{"type":"choice","name":"q","instructions":"Who?","choices":[{"value":"user"},{"value":"the","description":"d"}]}]}`)
	status, got := r.post(routeSystemOne, `{"model":"test-model","state":"Hello","questions":{"q":{"type":"choice","instructions":"Who?","criteria":{"user":null,"the":"d"}}}}`)
	var a struct {
		Answers []struct {
			Probabilities []struct{ Probability float64 }
		}
	}
	var b struct {
		Answers map[string]struct{ Probabilities map[string]float64 }
	}
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &b); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, got, err)
	}
	if p := b.Answers["q"].Probabilities; p["user"] != a.Answers[0].Probabilities[0].Probability || p["the"] != a.Answers[0].Probabilities[1].Probability {
		t.Errorf("%s beside %s", got, want)
	}
}

func TestManyQuestionsAreAskedInWaves(t *testing.T) {
	r := deciderRig(t, DefaultConfig(), measure)
	defer r.close()
	list := make([]string, 400)
	for i := range list {
		list[i] = fmt.Sprintf(`{"type":"predicate","instructions":"statement %d"}`, i)
	}
	status, body := r.post(routeDecisions, `{"model":"test-model","input":"Hello world","questions":[`+strings.Join(list, ",")+`]}`)
	if status != 200 || strings.Count(body, `"type":"predicate"`) != 400 || len(r.backend.runs) != 400 {
		t.Errorf("%d: %d answers, %d requests", status, strings.Count(body, "predicate"), len(r.backend.runs))
	}
}

func TestDecisionsAreRefused(t *testing.T) {
	r := deciderRig(t, DefaultConfig(), measure)
	defer r.close()
	for _, tc := range []struct{ path, body, code, param string }{
		{routeDecisions, strings.Replace(twoQuestions, "test-model", "vectors", 1), "wrong_model_kind", "model"},
		{routeDecisions, strings.Replace(twoQuestions, "test-model", "none", 1), "model_not_found", "model"},
		{routeDecisions, strings.Replace(twoQuestions, `"user"}`, `"assistant"}`, 1), "invalid_value", "questions[1].choices[1].value"},
		{routeSystemOne, `{"model":"test-model","state":"x","questions":{"a":{"type":"noul","criteria":7}}}`, "invalid_type", "questions.a.criteria"},
	} {
		status, body := r.post(tc.path, tc.body)
		var e struct{ Error struct{ Code, Param string } }
		if err := json.Unmarshal([]byte(body), &e); err != nil || status < 400 || e.Error.Code != tc.code || e.Error.Param != tc.param {
			t.Errorf("%s: %d %s, want %s at %s", tc.body, status, body, tc.code, tc.param)
		}
	}
	m := testModel(t, r.backend)
	m.Template = nil
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	if _, body := r.post(routeDecisions, twoQuestions); !strings.Contains(body, "no_chat_template") {
		t.Errorf("a model without a template answered %s", body)
	}
}

func TestAnUnfinishedMeasurementIsAnError(t *testing.T) {
	r := deciderRig(t, DefaultConfig(), func(run *fakeRun) {
		run.finish(0, inference.FinishStop)
		run.stream.Close(nil)
	})
	defer r.close()
	if status, body := r.post(routeDecisions, twoQuestions); status != 500 {
		t.Errorf("%d %s", status, body)
	}
}

// A hang-up, here a refusal of one question, cancels the others.
func TestAFailedQuestionCancelsTheOthers(t *testing.T) {
	r := deciderRig(t, DefaultConfig(), func(run *fakeRun) {
		if len(run.req.Given) == 2 {
			run.stream.Close(inference.ErrDeadline)
			return
		}
		<-run.cancelled
		run.stream.Close(inference.ErrCancelled)
	})
	defer r.close()
	if status, body := r.post(routeDecisions, twoQuestions); status != 408 {
		t.Errorf("%d %s", status, body)
	}
}
