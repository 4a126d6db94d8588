package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/configs"
	"weir/internal/inference"
	"weir/internal/server/local"
	"weir/tokenizer"
)

const (
	// checkTokens is how long the answer to a check's prompt may become.
	checkTokens = 256
	// checkTime bounds a check, which shares the threads with the models that serve.
	checkTime = time.Minute
)

// check has a new version answer its prompt before requests get it: greedily, so that a
// good version always gives the same answer. A text encoder gives a vector of numbers.
func (r *resident) check(ctx context.Context, c configs.ModelCheck) error {
	if c.Prompt == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if r.Encoder != nil {
		return r.checkVector(ctx, c)
	}
	got, err := r.greedy(ctx, c.Prompt)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(got) == "":
		return fmt.Errorf("the answer to %.80q is empty", c.Prompt)
	case !strings.HasPrefix(strings.TrimSpace(got), strings.TrimSpace(c.Answer)):
		return fmt.Errorf("the answer to %.80q is %.80q; the check wants that it begins with %.80q", c.Prompt, got, c.Answer)
	}
	return nil
}

// greedy answers a prompt: a user's message of a model that can chat, a text of others.
func (r *resident) greedy(ctx context.Context, text string) (string, error) {
	var ids []inference.TokenID
	var err error
	if r.Template.Template != nil {
		ids, err = r.Render([]local.Message{{Role: "user", Content: text}})
	} else {
		ids = r.Tokenizer.AppendSpans(nil, []tokenizer.Span{{Text: text}}, tokenizer.EncodeOptions{AddSpecial: true})
	}
	if err != nil {
		return "", err
	}
	room := min(checkTokens, r.Info().MaxModelLen-len(ids))
	if room < 1 {
		return "", fmt.Errorf("the check's prompt has %d tokens and the context holds %d", len(ids), r.Info().MaxModelLen)
	}
	sampling := inference.DefaultSampling()
	sampling.Temperature = 0
	stream, err := r.Submit(&inference.Request{ID: "check", Prompt: ids, MaxTokens: room, N: 1, PromptLogprobs: -1,
		Sampling: sampling, Arrived: time.Now()})
	if err != nil {
		return "", err
	}
	return r.follow(ctx, stream)
}

// follow reads a stream's text to its end, or to that of ctx.
func (r *resident) follow(ctx context.Context, stream *inference.Stream) (string, error) {
	var ids []inference.TokenID
	events := make([]inference.Event, 32)
	for {
		n, done, err := stream.Poll(events)
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken && !r.Tokenizer.IsEOG(e.Token) {
				ids = append(ids, e.Token)
			}
		}
		if done {
			return r.Tokenizer.Decode(ids, false), err
		}
		if n > 0 {
			continue
		}
		select {
		case <-stream.Wake():
		case <-ctx.Done():
			stream.Cancel(-1)
			return "", errors.New("the answer to the check's prompt took too long")
		}
	}
}

func (r *resident) checkVector(ctx context.Context, c configs.ModelCheck) error {
	if c.Answer != "" {
		return errors.New("a text encoder gives a vector and no text; leave out the check's answer")
	}
	ids := r.Tokenizer.AppendSpans(nil, []tokenizer.Span{{Text: c.Prompt}}, tokenizer.EncodeOptions{AddSpecial: true})
	e := &inference.Embedding{ID: "check", Texts: [][]inference.TokenID{ids}, Arrived: time.Now()}
	if err := r.Encoder.Embed(ctx, e); err != nil {
		return err
	}
	for _, v := range e.Vectors {
		for _, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("the vector of %.80q has a value that is no number", c.Prompt)
			}
		}
	}
	return nil
}
