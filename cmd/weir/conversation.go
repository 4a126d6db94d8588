package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"weir/internal/console"
	"weir/internal/inference"
	"weir/internal/markdown"
	"weir/internal/server/local"
	"weir/tokenizer"
)

// conversation is a chat with a loaded model; its history is sent again with
// each question, of which the prefix cache spares most.
type conversation struct {
	model   *local.Model
	options runOptions
	out     io.Writer // answers, as they come
	history []local.Message
}

func newConversation(m *local.Model, o runOptions, out io.Writer) *conversation {
	c := &conversation{model: m, options: o, out: out}
	c.clear()
	return c
}

// clear forgets everything but the system message.
func (c *conversation) clear() {
	c.history = c.history[:0]
	if c.options.system != "" {
		c.history = append(c.history, local.Message{Role: "system", Content: c.options.system})
	}
}

// setSystem changes the system message; the conversation goes on.
func (c *conversation) setSystem(text string) {
	c.options.system = text
	said := c.history
	if len(said) > 0 && said[0].Role == "system" {
		said = said[1:]
	}
	var history []local.Message
	if text != "" {
		history = append(history, local.Message{Role: "system", Content: text})
	}
	c.history = append(history, said...)
}

// resume goes on with another conversation, whose system message is that of o.
func (c *conversation) resume(o runOptions, history []local.Message) {
	c.options, c.history = o, history
}

// takeLast forgets the last message of the user, and its answer.
func (c *conversation) takeLast() (question string, ok bool) {
	for i, m := range slices.Backward(c.history) {
		if m.Role == "user" {
			question = m.Content
			c.history = c.history[:i]
			return question, true
		}
	}
	return "", false
}

// shown is where an answer goes, and what ends it there.
func (c *conversation) shown() (io.Writer, func() error) {
	if c.options.plain || !console.IsTerminal(c.out) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return c.out, func() error { return nil }
	}
	w := markdown.NewWriter(c.out)
	return w, w.Close
}

// answer is how an answer went.
type answer struct {
	promptTokens, cachedTokens, outputTokens int
	first, total                             time.Duration // since the question
	finish                                   inference.FinishReason
}

// String is one line: counts, time to the first token, tokens per second.
func (a answer) String() string {
	rate := 0.0
	if decode := a.total - a.first; a.outputTokens > 1 && decode > 0 {
		rate = float64(a.outputTokens-1) / decode.Seconds()
	}
	return fmt.Sprintf("prompt %d tokens (%d cached), first token after %v; %d tokens out, %.1f tokens/s, finish: %v",
		a.promptTokens, a.cachedTokens, a.first.Round(time.Millisecond), a.outputTokens, rate, a.finish)
}

// ask sends a question and writes the answer as it is generated. What stop
// delivers ends the answer; it stays in the history as far as it came.
func (c *conversation) ask(question string, stop <-chan os.Signal) (answer, error) {
	asked := time.Now()
	prompt, err := c.model.Render(append(c.history, local.Message{Role: "user", Content: question}))
	if err != nil {
		return answer{}, err
	}
	limit := c.options.maxTokens
	if room := c.model.Info().MaxModelLen - len(prompt); limit == 0 || limit > room {
		limit = room
	}
	if limit < 1 {
		return answer{}, fmt.Errorf("the conversation has %d tokens and the context holds %d; /clear starts a new one",
			len(prompt), c.model.Info().MaxModelLen)
	}
	stream, err := c.model.Submit(&inference.Request{
		ID: "run", Prompt: prompt, MaxTokens: limit, N: 1, PromptLogprobs: -1,
		Sampling: c.options.sampling(), Arrived: asked,
	})
	if err != nil {
		return answer{}, fmt.Errorf("ask: %w", err)
	}
	out, end := c.shown()
	w := &answerWriter{out: out, end: end, terminal: console.IsTerminal(c.out), decoder: c.model.Tokenizer.NewDecoder(false),
		ends: c.model.Tokenizer.IsEOG, asked: asked}
	err = w.follow(stream, stop)
	w.answer.promptTokens, w.answer.cachedTokens = len(prompt), stream.Progress().CachedTokens
	c.history = append(c.history, local.Message{Role: "user", Content: question}, local.Message{Role: "assistant", Content: string(w.text)})
	return w.answer, err
}

// answerWriter follows a stream and writes its text.
type answerWriter struct {
	out      io.Writer
	end      func() error
	terminal bool // out is one: control characters stay off it
	decoder  *tokenizer.Decoder
	ends     func(id int32) bool // tokens that have no text in an answer
	asked    time.Time
	answer   answer
	text     []byte
}

// follow writes until the stream ends. After a stop it cancels and waits for
// that end, so that the engine is idle when it returns.
func (w *answerWriter) follow(stream *inference.Stream, stop <-chan os.Signal) error {
	events := make([]inference.Event, 16)
	stopped := false
	for {
		n, done, err := stream.Poll(events)
		for _, e := range events[:n] {
			if writeErr := w.event(e); writeErr != nil && !stopped {
				stopped = true
				stream.Cancel(-1)
			}
		}
		if done {
			w.answer.total = time.Since(w.asked)
			if errors.Is(err, inference.ErrCancelled) {
				err = nil
			}
			return errors.Join(err, w.write(w.decoder.Flush(nil)), w.endLine())
		}
		if n > 0 {
			continue
		}
		select {
		case <-stream.Wake():
		case <-stop:
			stopped = true
			stream.Cancel(-1)
		}
	}
}

func (w *answerWriter) event(e inference.Event) error {
	switch e.Kind {
	case inference.EventToken:
		if w.answer.outputTokens == 0 {
			w.answer.first = time.Since(w.asked)
		}
		w.answer.outputTokens++
		if w.ends(e.Token) {
			return nil
		}
		return w.write(w.decoder.Append(nil, e.Token))
	case inference.EventFinish:
		w.answer.finish = e.Finish
	case inference.EventPrompt:
	}
	return nil
}

func (w *answerWriter) write(text []byte) error {
	w.text = append(w.text, text...)
	if w.terminal {
		text = []byte(console.PrintableText(string(text)))
	}
	if _, err := w.out.Write(text); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

// endLine is not part of the answer.
func (w *answerWriter) endLine() error {
	if err := w.end(); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	if _, err := io.WriteString(w.out, "\n"); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

// interrupts delivers Ctrl-C until end is called.
func interrupts() (stop <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}
