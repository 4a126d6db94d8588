package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// Limits of data set files.
const (
	maxFileBytes = 4 << 30
	maxLineBytes = 16 << 20
)

// open reads the workload's file with a bound.
func (w *Workload) open(parse func(io.Reader) ([]Request, error)) ([]Request, error) {
	f, err := os.Open(w.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	requests, err := parse(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Path, err)
	}
	return requests, nil
}

// shareGPTMessage is one message of a ShareGPT conversation.
type shareGPTMessage struct {
	Value string `json:"value"`
}

// Bounds of ShareGPT conversations, in words; vLLM has the same in tokens.
const (
	leastTurn  = 4
	mostPrompt = 1024
	mostTotal  = 2048
)

// shareGPT reads an array of {"conversations":[{"from","value"},…]}: the first
// message is the prompt, the length of the second the length of the output.
func (w *Workload) shareGPT() ([]Request, error) {
	requests, err := w.open(func(from io.Reader) ([]Request, error) { return readShareGPT(from, w.FileOutputLen) })
	if err != nil {
		return nil, err
	}
	w.rand(streamOrder, 0).Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	return w.fill(requests)
}

func readShareGPT(from io.Reader, outputLen int) ([]Request, error) {
	d := json.NewDecoder(from)
	if t, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read the opening bracket: %w", err)
	} else if t != json.Delim('[') {
		return nil, fmt.Errorf("begins with %v, must be an array of conversations", t)
	}
	var requests []Request
	for n := 0; d.More(); n++ {
		var c struct {
			Conversations []shareGPTMessage `json:"conversations"`
		}
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("conversation %d: %w", n, err)
		}
		if r, ok := fromTurns(c.Conversations, outputLen); ok {
			requests = append(requests, r)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read the closing bracket: %w", err)
	}
	return requests, nil
}

// fromTurns makes a request of a conversation; ok is false for one that is too
// short or too long to be measured.
func fromTurns(turns []shareGPTMessage, outputLen int) (Request, bool) {
	if len(turns) < 2 {
		return Request{}, false
	}
	prompt, output := len(strings.Fields(turns[0].Value)), len(strings.Fields(turns[1].Value))
	if outputLen > 0 {
		output = outputLen
	}
	ok := prompt >= leastTurn && prompt <= mostPrompt && prompt+output <= mostTotal && (output >= leastTurn || outputLen > 0)
	return Request{Prompt: turns[0].Value, Words: prompt, OutputTokens: output}, ok
}

// custom reads lines of {"prompt": text} or {"messages": […]}, each with an
// optional "output_tokens".
func (w *Workload) custom() ([]Request, error) {
	requests, err := w.open(func(from io.Reader) ([]Request, error) { return readCustom(from, w.FileOutputLen) })
	if err != nil {
		return nil, err
	}
	return w.fill(requests)
}

func readCustom(from io.Reader, outputLen int) ([]Request, error) {
	var requests []Request
	err := eachLine(from, func(line []byte) error {
		var c struct {
			Prompt       string          `json:"prompt"`
			Messages     json.RawMessage `json:"messages"`
			OutputTokens int             `json:"output_tokens"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		if string(c.Messages) == "null" {
			c.Messages = nil
		}
		if (c.Prompt == "") == (c.Messages == nil) {
			return errors.New(`needs either "prompt" or "messages"`)
		}
		if outputLen > 0 {
			c.OutputTokens = outputLen
		}
		if err := checkLen(`"output_tokens"`, c.OutputTokens, 1); err != nil {
			return err
		}
		words := len(strings.Fields(c.Prompt)) + len(bytes.Fields(c.Messages))
		requests = append(requests, Request{Prompt: c.Prompt, Messages: c.Messages, Words: words, OutputTokens: c.OutputTokens})
		return nil
	})
	return requests, err
}

// timedTrace reads Mooncake's published form: lines of {"timestamp": ms,
// "input_length", "output_length", "hash_ids": […]}, where equal ids are equal
// blocks of 512 tokens.
func (w *Workload) timedTrace() ([]Request, error) {
	if !(w.Trace.Shrink > 0 && w.Trace.Shrink <= 1) {
		return nil, fmt.Errorf("shrink factor is %g, must be above 0 and at most 1", w.Trace.Shrink)
	}
	return w.open(w.readTimedTrace)
}

var errEnough = errors.New("enough lines")

func (w *Workload) readTimedTrace(from io.Reader) ([]Request, error) {
	list, at, err := w.drawTimedTrace(from)
	if err != nil {
		return nil, err
	}
	return w.write(list, w.traceBlock(), at), nil
}

// traceBlock is how many tokens a block of a timed trace has.
func (w *Workload) traceBlock() int {
	const blockTokens = 512
	return max(16, int(blockTokens*w.Trace.Shrink))
}

// drawTimedTrace reads what the requests of a timed trace are, and when they come.
func (w *Workload) drawTimedTrace(from io.Reader) (list []traceRequest, at []float64, err error) {
	block := w.traceBlock()
	err = eachLine(from, func(line []byte) error {
		var l struct {
			Timestamp    float64 `json:"timestamp"`
			InputLength  int     `json:"input_length"`
			OutputLength int     `json:"output_length"`
			HashIDs      []int64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if err := errors.Join(checkLen(`"input_length"`, l.InputLength, 1),
			checkLen(`"output_length"`, l.OutputLength, 0)); err != nil {
			return err
		}
		if l.Timestamp < 0 || l.Timestamp > 1e12 || len(at) > 0 && l.Timestamp/1000 < at[len(at)-1] {
			return fmt.Errorf(`"timestamp" is %g, must not fall and be 0 to 1e12 ms`, l.Timestamp)
		}
		d := traceRequest{
			input:  clampLen(float64(l.InputLength)*w.Trace.Shrink, w.Trace.MaxInput),
			output: clampLen(float64(l.OutputLength)*w.Trace.Shrink, w.Trace.MaxOutput),
		}
		for _, id := range l.HashIDs[:min(len(l.HashIDs), (d.input-1)/block)] {
			d.blocks = append(d.blocks, uint64(id)&math.MaxUint32)
		}
		list, at = append(list, d), append(at, l.Timestamp/1000)
		if len(list) == w.Count {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, errors.New("no requests in it")
	}
	return list, at, nil
}

// eachLine calls use with each line that is not blank.
func eachLine(from io.Reader, use func(line []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLineBytes)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := use(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

// fill takes as many requests as wanted, the same ones again where the file
// has fewer.
func (w *Workload) fill(requests []Request) ([]Request, error) {
	if len(requests) == 0 {
		return nil, errors.New("no usable requests in it")
	}
	if have := len(requests); have < w.Count {
		w.notes = append(w.notes, fmt.Sprintf("the file has %d usable requests of the %d to send: "+
			"requests were repeated, and a prefix cache serves the repetitions faster", have, w.Count))
		for i := have; i < w.Count; i++ {
			requests = append(requests, requests[i%have])
		}
	}
	return slices.Clip(requests[:w.Count]), nil
}
