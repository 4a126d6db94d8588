package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/internal/inference"
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
	models Models
	client Client
	ctx    context.Context //nolint:containedctx // of the check alone
	plan   rollout.Plan
	busy   time.Time // until then servers may be busy

	answers *patience
	tell    deployment.CheckProgress
	asked   int // questions and golden requests that are done
}

// check says why a candidate may not have users; nil: it may. tell hears how far the check is.
func check(ctx context.Context, m Models, own Client, p rollout.Plan, tell deployment.CheckProgress) error {
	if p.Unchecked {
		return nil
	}
	answers := newPatience(ctx)
	defer answers.end()
	c := &candidateCheck{models: m, client: own, ctx: answers.ctx, plan: p, busy: time.Now().Add(busyTime), answers: answers, tell: tell}
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
	if c.models.IsClassic(c.plan.Model) {
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
		Request: models.VersionRequest{Model: c.plan.Model, Endpoint: path, ID: "check"}, Body: c.body(path, question, tokens), Greedy: true,
	}
	entry, release, ok := c.models.EntryOf(c.plan.Model, version)
	if !ok {
		return generation.Shadowed{}, errNotThere
	}
	defer release()
	for {
		alone := c.client.Engaged() == 0
		got, err := c.client.Shadow(c.ctx, entry, q)
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
	if _, ok := c.models.Answers(c.plan.Model); !ok {
		return "", errNotThere
	}
	if entry, release, ok := c.models.EntryOf(c.plan.Model, c.plan.Stable); ok {
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
		o := &rollout.Copied{Before: usual.Output, WasEmpty: isEmpty(usual.Texts), Stable: usual.ITL}
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
			o.Empty, o.Output, o.ITL = isEmpty(got.Texts), got.Output, got.ITL
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
		status, answer := c.client.Post(e, path, text)
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
