package server_test

import (
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/configs"
	"weir/engine/gguf"
	"weir/internal/reference"
	"weir/internal/server/servertest"
)

// gemma4Markers are the control tokens (type 3) and those that users may write (4) of Gemma 4, in the place of tokens of Gemma 3's vocabulary.
var gemma4Markers = []struct {
	token string
	kind  int32
}{
	{"<|channel>", 4}, {"<channel|>", 4}, {"<|tool_call>", 4}, {"<tool_call|>", 4}, {"<|tool_response>", 4}, {"<tool_response|>", 4}, {`<|"|>`, 4},
	{"<|think|>", 3}, {"<|tool>", 3}, {"<tool|>", 3},
}

// gemma4File is a model of Gemma 4's small kind, of random weights, whose vocabulary has all 262,144 words of Gemma 3's real file, with Gemma 4's
// markers and its published template.
func gemma4File(t *testing.T) string {
	t.Helper()
	words, err := gguf.Open(reference.Model(t, "gemma3"))
	if err != nil {
		t.Fatal(err)
	}
	defer words.Close()
	small, err := gguf.Open("../../engine/llm/testdata/decoders/gemma4-small.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	var b gguf.Builder
	for _, kv := range small.KV {
		if !strings.HasPrefix(kv.Key, "tokenizer.") && kv.Key != "gemma4.vocab_size" {
			b.Set(kv.Key, kv.Value)
		}
	}
	b.Set("gemma4.context_length", uint32(4096))
	n := gemma4Vocabulary(t, &b, words)
	random := rand.New(rand.NewPCG(4, 4))
	for i := range small.Tensors {
		x := &small.Tensors[i]
		if x.Dims[len(x.Dims)-1] == 60 { // its own vocabulary
			values := make([]float32, int(x.Dims[0])*n)
			for k := range values {
				values[k] = float32(random.NormFloat64())
			}
			b.TensorF32(x.Name, []uint64{x.Dims[0], uint64(n)}, values)
			continue
		}
		raw := make([]byte, x.Bytes)
		if err := small.ReadTensor(x, raw); err != nil {
			t.Fatal(err)
		}
		b.Tensor(x.Name, x.Dims, x.Type, raw)
	}
	path := filepath.Join(t.TempDir(), "gemma4.gguf")
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// gemma4Vocabulary writes the vocabulary and the template, and returns how many tokens there are.
func gemma4Vocabulary(t *testing.T, b *gguf.Builder, words *gguf.File) int {
	t.Helper()
	const list = "tokenizer.ggml.tokens"
	tokens, ok, err := words.Strings(list)
	if err != nil || !ok {
		t.Fatal(err)
	}
	tokens = slices.Clone(tokens)
	var kinds []int32
	for _, kv := range words.KV {
		switch {
		case kv.Key == "tokenizer.ggml.token_type":
			kinds = slices.Clone(kv.Value.([]int32))
		case strings.HasPrefix(kv.Key, "tokenizer.") && kv.Key != list && kv.Key != "tokenizer.chat_template":
			b.Set(kv.Key, kv.Value)
		}
	}
	for old, token := range map[string]string{"<start_of_turn>": "<|turn>", "<end_of_turn>": "<turn|>"} {
		i := slices.Index(tokens, old)
		tokens[i], kinds[i] = token, 3
	}
	spare := slices.Index(tokens, "<unused0>")
	for i, m := range gemma4Markers {
		tokens[spare+i], kinds[spare+i] = m.token, m.kind
	}
	var published struct{ Template string }
	data, err := os.ReadFile(filepath.Join(reference.Path(t, "testdata/templates"), "google-gemma-4-31B-it-interleaved.json"))
	if err == nil {
		err = json.Unmarshal(data, &published)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Set(list, tokens)
	b.Set("tokenizer.ggml.token_type", kinds)
	b.Set("tokenizer.chat_template", published.Template)
	return len(tokens)
}

// gemma4Answer is what a chat says.
type gemma4Answer struct {
	Message struct {
		Content   string
		Reasoning string `json:"reasoning_content"`
		Calls     []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Reason string `json:"finish_reason"`
}

// askGemma4 asks with these fields.
func askGemma4(t *testing.T, s *servertest.Server, seed int, fields map[string]any) gemma4Answer {
	t.Helper()
	body := map[string]any{
		"messages":    []map[string]string{{"role": "user", "content": "How is the weather in Paris, and who is Ada?"}},
		"temperature": 1, "seed": seed, "max_tokens": 200,
	}
	maps.Copy(body, fields)
	r := s.Post("/v1/chat/completions", jsonText(body))
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	var answer struct{ Choices []gemma4Answer }
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Choices) != 1 {
		t.Errorf("%v: %s", err, text)
		return gemma4Answer{}
	}
	return answer.Choices[0]
}

// Whatever the weights would rather say, answers to a schema are of it and required calls are calls, in a vocabulary of 262,144 tokens, with a
// thought before them and without; and each is the same alone and among others.
func TestGemma4AnswersAsAskedWithItsRealVocabulary(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and loads a vocabulary of 262,144 tokens")
	}
	path := gemma4File(t)
	s := servertest.Start(t, func(c *configs.Config) { c.Model.Path, c.Engine.KVMemoryBytes = path, 64<<20 })
	schema := map[string]any{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "person", "schema": json.RawMessage(realPersonSchema)}}}
	call := map[string]any{"tools": gemma4Tools(), "tool_choice": "required", "parallel_tool_calls": false}
	thought := func(fields map[string]any) map[string]any {
		more := map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": true}, "thinking_token_budget": 8}
		maps.Copy(more, fields)
		return more
	}
	asked := []map[string]any{schema, call, thought(schema), thought(call)}
	const seeds = 3
	answers := make([]gemma4Answer, seeds*len(asked))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = askGemma4(t, s, i/len(asked), asked[i%len(asked)]) })
	}
	all.Wait()
	for i, c := range answers {
		if thinks := i%len(asked) >= 2; thinks != (c.Message.Reasoning != "") {
			t.Errorf("%d: the thought is %q", i, c.Message.Reasoning)
		}
		if i%2 == 0 {
			holdGemma4Person(t, c.Message.Content, c.Reason)
			continue
		}
		if len(c.Message.Calls) != 1 || c.Reason != "tool_calls" || c.Message.Content != "" {
			t.Errorf("%d: %+v", i, c)
			continue
		}
		var arguments struct{ City, Unit string }
		f := c.Message.Calls[0].Function
		if err := json.Unmarshal([]byte(f.Arguments), &arguments); err != nil || f.Name != "get_weather" || arguments.City != "Paris" && arguments.City != "Rome" {
			t.Errorf("%d: %v, %s %s", i, err, f.Name, f.Arguments)
		}
	}
	for i := range asked {
		if alone := askGemma4(t, s, 0, asked[i]); jsonText(alone) != jsonText(answers[i]) {
			t.Errorf("alone %+v, among others %+v", alone, answers[i])
		}
	}
}

// holdGemma4Person wants JSON of realPersonSchema.
func holdGemma4Person(t *testing.T, text, reason string) {
	t.Helper()
	var p realPerson
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil || reason != "stop" || p.Age < 0 || p.Age > 120 || len([]rune(p.Name)) > 20 ||
		!slices.Contains([]string{"red", "green", "blue"}, p.Colour) {
		t.Errorf("%v, ended by %q: %s", err, reason, text)
	}
}

// gemma4Tools is a tool whose arguments are bounded.
func gemma4Tools() []any {
	return []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "get_weather", "description": "weather of a city",
		"parameters": json.RawMessage(`{"type":"object","properties":{"city":{"enum":["Paris","Rome"]},"unit":{"enum":["C","F"]}},"required":["city"],"additionalProperties":false}`),
	}}}
}
