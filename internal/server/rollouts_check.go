package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router/deployment"
	"weir/router/rollout"
)

// Before a candidate has its first user it answers what this file asks: questions that the stable version answers, too, or a row, or a
// text for a vector; and the golden requests of its plan.

const (
	// candidateCheckTime bounds the check of a candidate, and checkedAnswerTime each answer of it: a large model that is computed here
	// may take seconds for each.
	candidateCheckTime = 30 * time.Minute
	checkedAnswerTime  = 3 * time.Minute
	// busyTime is how long a check waits for servers that are busy or not there yet.
	busyTime = 3 * time.Second
	// checkAnswerTokens is how long the answer to a question becomes at most.
	checkAnswerTokens = 16
	chatRoute         = "/v1/chat/completions"
	completionRoute   = "/v1/completions"
)

// questions are of many kinds, so that versions which answer as the stable one does have much in common, and others little.
var questions = []string{
	"Hello! How are you?", "What is the capital of France?", "Write one sentence about the sea.", "Translate to German: good morning",
	"List three colors.", "What is 7 plus 5?", "Who wrote Romeo and Juliet?", "Give me a synonym of happy.",
	"Explain rain to a child in one sentence.", "Name a fruit that is yellow.", "What do bees make?", "Write a short poem about winter.",
	"How many days has a week?", "What is water made of?", "Tell me a fact about the moon.", "Say thank you in French.",
	"What is the opposite of cold?", "Name a planet.", "Write a line of Python that prints hello.", "What comes after Monday?",
	"Describe a cat in five words.", "What is the largest ocean?", "Finish the sentence: once upon a time", "Why is the sky blue?",
}

// checkedTenant is whom the answers of checks are computed for, where they are counted at all; they cost nothing.
var checkedTenant = tenant.New("weir-check")

// candidateCheck is one check.
type candidateCheck struct {
	r    *rollouts
	ctx  context.Context //nolint:containedctx // of the check alone
	plan rollout.Plan
	busy time.Time // until then servers may be busy

	answers *patience
	tell    deployment.CheckProgress
	asked   int // questions and golden requests that are done
}

// check says why a candidate may not have users; nil: it may. tell hears how far the check is.
func (r *rollouts) check(ctx context.Context, p rollout.Plan, tell deployment.CheckProgress) error {
	if p.Unchecked {
		return nil
	}
	answers := newPatience(ctx)
	defer answers.end()
	c := &candidateCheck{r: r, ctx: answers.ctx, plan: p, busy: time.Now().Add(busyTime), answers: answers, tell: tell}
	err := c.run()
	if over := c.over(); over != nil { // what was not answered says nothing, in favour of the candidate neither
		return over
	}
	return err
}

// over is why the check ended before it was through; nil: it did not.
func (c *candidateCheck) over() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: it ended after %d questions: %w", rollout.ErrCheck, c.asked, context.Cause(c.ctx))
}

// done notes that another question is answered.
func (c *candidateCheck) done() {
	c.asked++
	c.answers.answered()
	c.tell(c.asked, len(questions)+len(c.plan.Golden))
}

func (c *candidateCheck) run() error {
	if c.r.names.isClassic(c.plan.Model) {
		return errors.Join(c.row(), c.goldenRows())
	}
	path, err := c.path()
	switch {
	case err != nil:
		return err
	case path == "":
		return c.vector()
	}
	if err := c.goldenTexts(path); err != nil {
		return err
	}
	return c.texts(path)
}

// body of a question.
func (c *candidateCheck) body(path, question string, tokens int) []byte {
	asked := map[string]any{"model": c.plan.Model, "max_tokens": tokens}
	if path == chatRoute {
		asked["messages"] = []map[string]string{{"role": "user", "content": question}}
	} else {
		asked["prompt"] = question
	}
	body, _ := json.Marshal(asked) // strings and a number
	return body
}

// ask has a version answer. What a busy server says is no answer for a while.
func (c *candidateCheck) ask(path, version, question string, tokens int) (generation.Shadowed, error) {
	q := &models.Copy{
		Ask: models.Ask{Model: c.plan.Model, Endpoint: path, ID: "check"}, Body: c.body(path, question, tokens), Greedy: true,
	}
	entry, release, ok := c.r.names.entryOf(c.plan.Model, version)
	if !ok {
		return generation.Shadowed{}, errNotThere
	}
	defer release()
	for {
		alone := c.r.s.engines.engaged() == 0
		got, err := c.r.s.edge.Shadow(c.ctx, entry, q)
		if !alone {
			got.Compute = 0 // beside others a token costs less
		}
		if !errors.Is(err, inference.ErrQueueFull) || time.Now().After(c.busy) {
			return got, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-c.ctx.Done():
			return got, err
		}
	}
}

// path is how the model is asked: for a chat, or where the stable version cannot chat for a text; "": it gives vectors.
func (c *candidateCheck) path() (string, error) {
	if c.r.names.of(c.plan.Model) == nil {
		return "", errNotThere
	}
	if entry, release, ok := c.r.names.entryOf(c.plan.Model, c.plan.Stable); ok {
		defer release()
		if entry.Pooler != nil {
			return "", nil
		}
	}
	_, err := c.ask(chatRoute, c.plan.Stable, questions[0], 1)
	if err == nil {
		return chatRoute, nil
	}
	if _, err := c.ask(completionRoute, c.plan.Stable, questions[0], 1); err == nil {
		return completionRoute, nil
	}
	if status, _ := c.embed(c.plan.Stable, questions[0]); status == http.StatusOK {
		return "", nil
	}
	return chatRoute, c.unless(err) // the stable version answers nothing: what the candidate answers cannot be compared
}

// unless gives the candidate a chance where the stable version answers nothing at all.
func (c *candidateCheck) unless(stable error) error {
	if _, err := c.ask(chatRoute, c.plan.Candidate, questions[0], 1); err != nil {
		return fmt.Errorf("%w: it does not answer a chat: %w; the stable version: %w", rollout.ErrCheck, err, stable)
	}
	return nil
}

// texts compares the answers of both versions.
func (c *candidateCheck) texts(path string) error {
	check := c.plan.NewCheck()
	for i, question := range questions {
		usual, err := c.ask(path, c.plan.Stable, question, checkAnswerTokens)
		if err != nil {
			if over := c.over(); over != nil {
				return over
			}
			c.done()
			continue // what the stable version refuses says nothing
		}
		c.answers.answered()
		o := &rollout.Copied{Before: usual.Output, Stable: usual.ITL}
		if i%againEvery == 0 {
			if again, err := c.ask(path, c.plan.Stable, question, checkAnswerTokens); err == nil {
				o.Again = rollout.Distances{Measured: true, Distance: textDistance(usual.Texts, again.Texts)}
			}
		}
		got, err := c.ask(path, c.plan.Candidate, question, checkAnswerTokens)
		if over := c.over(); over != nil {
			return over
		}
		c.done()
		if err != nil {
			o.Failed, o.Why = true, fmt.Sprintf("%.300s", err)
		} else {
			o.Empty, o.Output, o.ITL = strings.Join(got.Texts, "") == "", got.Output, got.ITL
			o.Distance = textDistance(usual.Texts, got.Texts)
			o.Texts = rollout.CheckedTexts{Question: question, Stable: strings.Join(usual.Texts, ""), Candidate: strings.Join(got.Texts, "")}
			if got.Compute > 0 && usual.Compute > 0 && got.Output > 0 && usual.Output > 0 {
				o.Compute = rollout.Computed{Candidate: got.Compute / time.Duration(got.Output), Stable: usual.Compute / time.Duration(usual.Output)}
			}
		}
		if enough, err := check.Add(o); enough || err != nil {
			return err
		}
	}
	return check.End()
}

func (c *candidateCheck) goldenTexts(path string) error {
	for i := range c.plan.Golden {
		g := &c.plan.Golden[i]
		if g.Prompt == "" {
			return fmt.Errorf("%w: golden %d has inputs, and %q is no classical model", rollout.ErrPlan, i+1, c.plan.Model)
		}
		tokens := g.MaxTokens
		if tokens == 0 {
			tokens = rollout.DefaultGoldenTokens
		}
		got, err := c.ask(path, c.plan.Candidate, g.Prompt, tokens)
		if err == nil {
			err = g.Answered(strings.Join(got.Texts, ""))
		}
		if err != nil {
			return fmt.Errorf("%w: golden %d: %w", rollout.ErrCheck, i+1, err)
		}
		c.done()
	}
	return nil
}

// post asks for something that has no copies: a vector, a prediction.
func (c *candidateCheck) post(path string, body any) (int, []byte) {
	text, err := json.Marshal(body)
	if err != nil {
		return http.StatusBadRequest, []byte(err.Error())
	}
	e := &edge.InternalRequest{Caller: tenant.Caller{Tenant: &checkedTenant, Scope: tenant.ScopeInference}, Gone: c.ctx.Done(), Trial: true}
	for {
		status, answer := e.Post(c.r.s.mux, path, text)
		busy := status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
		if !busy || time.Now().After(c.busy) || c.ctx.Err() != nil {
			return status, answer
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-c.ctx.Done():
		}
	}
}

func (c *candidateCheck) embed(version string, texts ...string) (int, []byte) {
	return c.post("/v1/embeddings", map[string]any{"model": c.plan.Model + "@" + version, "input": texts})
}

// comparedTexts is how many texts are embedded in two wordings.
const comparedTexts = 8

// wordings are texts, and behind them each in other words.
func wordings() []string {
	list := slices.Clone(questions[:comparedTexts])
	for _, q := range questions[:comparedTexts] {
		list = append(list, "Please tell me this: "+strings.ToLower(q))
	}
	return list
}

// vector has both versions embed texts. Where the stable version's vectors tell them apart, so must the candidate's.
func (c *candidateCheck) vector() error {
	status, answer := c.embed(c.plan.Stable, wordings()...)
	if status != http.StatusOK {
		return nil // a model that only ranks, or is out of order: what the candidate answers cannot be compared
	}
	usual, err := vectorsOf(answer)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	status, answer = c.embed(c.plan.Candidate, wordings()...)
	if status != http.StatusOK {
		return fmt.Errorf("%w: it answers texts to embed with status %d: %.200s", rollout.ErrCheck, status, answer)
	}
	got, err := vectorsOf(answer)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", rollout.ErrCheck, err)
	case len(got[0]) != len(usual[0]):
		return fmt.Errorf("%w: its vectors have %d numbers, and the stable version's %d", rollout.ErrCheck, len(got[0]), len(usual[0]))
	}
	if mine, its := toldApart(got), toldApart(usual); its > comparedTexts/2 && mine <= comparedTexts/2 {
		return fmt.Errorf("%w: its vectors have no more to do with their texts: of %d texts %d are nearest to themselves in other words, and %d by the stable version's vectors",
			rollout.ErrCheck, comparedTexts, mine, its)
	}
	return nil
}

// vectorsOf are the vectors of an answer to wordings.
func vectorsOf(answer []byte) ([][]float64, error) {
	var got struct {
		Data []struct{ Embedding []float64 }
	}
	if err := json.Unmarshal(answer, &got); err != nil || len(got.Data) != 2*comparedTexts {
		return nil, fmt.Errorf("it answers %d texts to embed with %d vectors of numbers: %.200s", 2*comparedTexts, len(got.Data), answer)
	}
	list := make([][]float64, len(got.Data))
	for i := range got.Data {
		list[i] = got.Data[i].Embedding
		if len(list[i]) == 0 || len(list[i]) != len(list[0]) || cosine(list[i], list[i]) == 0 {
			return nil, fmt.Errorf("vector %d of its answer is empty, has another length than the first, or is all zeros", i+1)
		}
	}
	return list, nil
}

// toldApart is how many texts have a vector nearer to that of their other wording than to those of all others.
func toldApart(vectors [][]float64) (n int) {
	texts, others := vectors[:comparedTexts], vectors[comparedTexts:]
	for i, v := range texts {
		own, nearest := cosine(v, others[i]), true
		for j, w := range others {
			nearest = nearest && (i == j || cosine(v, w) < own)
		}
		if nearest {
			n++
		}
	}
	return n
}

// cosine is the cosine between two vectors of one length; 0 where one is all zeros.
func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

func (c *candidateCheck) infer(version string, inputs []rollout.Tensor) (int, []byte) {
	path := "/v2/models/" + url.PathEscape(c.plan.Model) + "/versions/" + url.PathEscape(version) + "/infer"
	return c.post(path, map[string]any{"inputs": inputs})
}

// row has both versions score a row of zeros: what the stable version takes the candidate has to take, and to give the same outputs.
func (c *candidateCheck) row() error {
	found, err := c.r.s.predictors.enriched.Find(c.plan.Model, c.plan.Stable)
	if err != nil || found.Describe() == nil {
		return nil //nolint:nilerr // the stable version is out of order: nothing can be compared
	}
	zeros := zeroRow(found.Describe().Inputs)
	status, answer := c.infer(c.plan.Stable, zeros)
	if status != http.StatusOK {
		return nil // zeros are no row for this model
	}
	want := outputTypes(answer)
	status, answer = c.infer(c.plan.Candidate, zeros)
	switch got := outputTypes(answer); {
	case status != http.StatusOK:
		return fmt.Errorf("%w: it answers a row that the stable version takes with status %d: %.200s", rollout.ErrCheck, status, answer)
	case !maps.Equal(got, want):
		return fmt.Errorf("%w: its outputs are %v, and the stable version's %v", rollout.ErrCheck, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// zeroRow is a row of zeros or empty strings.
func zeroRow(inputs []tensor.Spec) []rollout.Tensor {
	list := make([]rollout.Tensor, len(inputs))
	for i, in := range inputs {
		t := rollout.Tensor{Name: in.Name, Datatype: in.Type.String()}
		values := 1
		for _, n := range in.Shape {
			n = max(n, 1)
			t.Shape = append(t.Shape, n)
			values *= int(n)
		}
		var zero any = 0
		if in.Type == tensor.Bytes {
			zero = ""
		}
		if in.Type == tensor.Bool {
			zero = false
		}
		t.Data = slices.Repeat([]any{zero}, min(values, maxZeros))
		list[i] = t
	}
	return list
}

// maxZeros bounds a row.
const maxZeros = 1 << 16

// outputTypes are the outputs of a V2 answer: their types by name.
func outputTypes(answer []byte) map[string]string {
	var got struct{ Outputs []rollout.Tensor }
	_ = json.Unmarshal(answer, &got) // a refusal has none
	outputs := make(map[string]string)
	for _, o := range got.Outputs {
		outputs[o.Name] = o.Datatype
	}
	return outputs
}

func (c *candidateCheck) goldenRows() error {
	for i := range c.plan.Golden {
		g := &c.plan.Golden[i]
		if g.Prompt != "" {
			return fmt.Errorf("%w: golden %d has a prompt, and %q is a classical model", rollout.ErrPlan, i+1, c.plan.Model)
		}
		status, answer := c.infer(c.plan.Candidate, g.Inputs)
		err := g.Scored(answer)
		if status != http.StatusOK {
			err = fmt.Errorf("status %d: %.200s", status, answer)
		}
		if err != nil {
			return fmt.Errorf("%w: golden %d: %w", rollout.ErrCheck, i+1, err)
		}
	}
	return nil
}
