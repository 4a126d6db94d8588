package server_test

import (
	"context"
	stdflag "flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/configs"
	"weir/engine/kernel/isa"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/server/local"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

var allAnswers = stdflag.Bool("all", false, "ask the embedded model everything that it was trained on")

// chatPrompt is a conversation as the model reads it, through its template and tokenizer.
func chatPrompt(t *testing.T, m *local.Model, messages []defaultmodel.Message) []int32 {
	t.Helper()
	value, err := chat.FromJSON([]byte(jsonText(messages)))
	if err != nil {
		t.Fatal(err)
	}
	in := chat.Input{Messages: value, AddGenerationPrompt: true, Now: time.Now()}
	in.BOSToken, in.EOSToken = m.Tokenizer.BoundaryTexts()
	spans, err := m.Template.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return m.Tokenizer.AppendSpans(nil, spans, tokenizer.EncodeOptions{})
}

// askGreedily sends a conversation through template, tokenizer and engine, and
// returns the text of the greedy answer.
func askGreedily(t *testing.T, m *local.Model, messages []defaultmodel.Message) string {
	t.Helper()
	prompt := chatPrompt(t, m, messages)
	r := &inference.Request{Prompt: prompt, MaxTokens: m.Engine.Info().MaxModelLen - len(prompt), N: 1, PromptLogprobs: -1,
		Sampling: inference.DefaultSampling()}
	r.Sampling.Temperature = 0
	stream, err := m.Engine.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	decoder, events := m.Tokenizer.NewDecoder(false), make([]inference.Event, 16)
	for {
		n, done, err := stream.Poll(events)
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken && !m.Tokenizer.IsEOG(e.Token) {
				text = decoder.Append(text, e.Token)
			}
		}
		switch {
		case err != nil:
			t.Error(err)
			return string(text)
		case done:
			return strings.TrimSuffix(string(decoder.Flush(text)), "\n")
		case n == 0:
			<-stream.Wake()
		}
	}
}

// answersAsked picks what is asked: everything with -all, else every answer
// about weir in one of its phrasings and every twentieth sum.
func answersAsked() []defaultmodel.QA {
	if *allAnswers {
		return defaultmodel.Questions()
	}
	var list []defaultmodel.QA
	last, sums := "", 0
	for i, qa := range defaultmodel.Questions() {
		switch qa.Topic {
		case "add", "subtract", "multiply", "divide", "name given", "name remembered", "repeat", "follow-up sum":
			if sums++; sums%20 == 0 {
				list = append(list, qa)
			}
		default:
			if qa.Answer != last {
				list = append(list, qa)
			} else if i%7 == 0 { // another phrasing
				list[len(list)-1] = qa
			}
			last = qa.Answer
		}
	}
	return list
}

// The embedded model gives its training answers word for word, at every level: every eighth of the answers in short runs, and at other levels
// than the machine's best, whose arithmetic shows in any of them. With -all it is asked every question; that takes minutes.
func TestEmbeddedModelAnswersWordForWord(t *testing.T) {
	levels := isa.Levels()
	if testing.Short() {
		levels = levels[len(levels)-1:]
	}
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) { answersWordForWord(t, level) })
	}
}

func answersWordForWord(t *testing.T, level isa.Level) {
	f, err := local.Open("")
	if err != nil {
		t.Fatal(err)
	}
	c := configs.Default()
	c.Engine.CPULevel = level.String()
	m, err := local.Load(c, f, local.Hooks{Progress: func(int64, int64) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Engine.Close(context.Background())
	questions := make(chan defaultmodel.QA)
	var right, wrong atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for qa := range questions {
				if got := askGreedily(t, m, qa.Messages); got == qa.Answer {
					right.Add(1)
				} else if wrong.Add(1) < 10 {
					t.Errorf("%q:\n%q\nwant\n%q", qa.Question(), got, qa.Answer)
				}
			}
		})
	}
	for i, qa := range answersAsked() {
		if i%8 == 0 || *allAnswers || level != isa.Portable && reference.Long() || level == isa.Best() && !testing.Short() {
			questions <- qa
		}
	}
	close(questions)
	wg.Wait()
	t.Logf("%d of %d answers word for word", right.Load(), right.Load()+wrong.Load())
}
