// Package defaultmodel embeds the small language model that weir serves when it
// is given no file: a Llama-shaped network of our own with its vocabulary and
// chat template, in one GGUF of about 2 MB with Q8_0 weights. The folder train
// holds the recipe; the questions that the model answers word for word are
// embedded beside it and serve as tests of whatever runs the model.
package defaultmodel

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

//go:embed weir-default.gguf
var modelFile string

//go:embed questions.jsonl
var questionsFile string

// GGUF returns the model file. Every call makes a copy, which the caller owns;
// Reader gives the same bytes without one.
func GGUF() []byte { return []byte(modelFile) }

// Reader returns the model file for random access; its Size is the file's.
// Readers are independent of each other and read only memory of the binary.
func Reader() *strings.Reader { return strings.NewReader(modelFile) }

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "user" or "assistant"
	Content string `json:"content"`
}

// QA is a conversation and the answer that greedy decoding gives to its last
// message, up to the end token and not including it.
type QA struct {
	Topic    string
	Messages []Message // at least one; the last is the user's
	Answer   string
}

// Question is the text of the last message.
func (q QA) Question() string { return q.Messages[len(q.Messages)-1].Content }

// record is a line of questions.jsonl: several ways to ask for one answer.
type record struct {
	Topic     string    `json:"topic"`
	History   []Message `json:"history"`
	Questions []string  `json:"questions"`
	Answer    string    `json:"answer"`
}

var questions = sync.OnceValue(func() []QA {
	qas, err := readQuestions(strings.NewReader(questionsFile))
	if err != nil {
		panic("defaultmodel: embedded questions.jsonl: " + err.Error()) // unreachable: a test reads the same bytes
	}
	return qas
})

// Questions returns what the model was trained to answer word for word: all
// questions about weir, every sum once in changing words, short conversations,
// and a sample of the questions that it answers with its ignorance. The slice
// is shared; do not change it.
func Questions() []QA { return questions() }

func readQuestions(r io.Reader) ([]QA, error) {
	var out []QA
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	for n := 1; ; n++ {
		var rec record
		err := dec.Decode(&rec)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", n, err)
		}
		if len(rec.Questions) == 0 || rec.Answer == "" {
			return nil, fmt.Errorf("read record %d: topic %q has no question or no answer", n, rec.Topic)
		}
		for _, q := range rec.Questions {
			messages := slices.Concat(rec.History, []Message{{Role: "user", Content: q}})
			out = append(out, QA{Topic: rec.Topic, Messages: messages, Answer: rec.Answer})
		}
	}
}
