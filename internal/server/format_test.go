package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/internal/server/servertest"
)

// A schema binds the answers of the built-in model, alone and beside others, greedy and
// drawn, with drafts and without, and each answer is the same each time.
func TestServeAnswersInAFormat(t *testing.T) {
	s := servertest.Start(t, nil)
	const schema = `{"type":"object","properties":{"city":{"type":"string","maxLength":8},"kind":{"enum":["capital","village"]},` +
		`"size":{"type":"integer","minimum":1,"maximum":900}},"required":["city","kind","size"],"additionalProperties":false}`
	body := func(i int, more string) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":"Hello %d"}],"temperature":%d,"seed":%d,"max_tokens":150,`+
			`"response_format":{"type":"json_schema","json_schema":{"name":"city","strict":true,"schema":%s}}%s}`, i, i%2, i, schema, more)
	}
	ask := func(body string) (text string, err error) {
		r, err := http.Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		var c servertest.Completion
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil || len(c.Choices) != 1 || c.Choices[0].FinishReason != "stop" {
			return "", fmt.Errorf("status %d, answer %+v, %w", r.StatusCode, c, err)
		}
		return c.Choices[0].Message.Content, nil
	}
	want := make([]string, 8)
	for i := range want {
		text, err := ask(body(i, ""))
		if err != nil {
			t.Fatal(err)
		}
		var city struct {
			City, Kind *string
			Size       *int
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&city); err != nil || city.City == nil || len([]rune(*city.City)) > 8 || city.Kind == nil ||
			*city.Kind != "capital" && *city.Kind != "village" || city.Size == nil || *city.Size < 1 || *city.Size > 900 {
			t.Errorf("answer %d: %q does not fit, %v", i, text, err)
		}
		want[i] = text
	}
	var wg sync.WaitGroup
	for i := range want {
		for _, more := range []string{"", `,"speculative_ngram":true`, `,"speculative_ngram":false`, `,"ignore_eos":true,"min_tokens":140`} {
			wg.Go(func() {
				if text, err := ask(body(i, more)); err != nil || text != want[i] {
					t.Errorf("answer %d%s among others: %q, %v; want %q", i, more, text, err, want[i])
				}
			})
		}
	}
	wg.Wait()
}
