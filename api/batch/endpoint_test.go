package batch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// A batch of predictions names its model in its endpoint; its lines count rows, and a wrong one fails alone.
func TestBatchOfPredictions(t *testing.T) {
	for endpoint, answer := range map[string]string{
		"/v1/models/m:predict":            `{"predictions":[{"a":1},{"a":2}]}`,
		"/v1/models/m/versions/3:predict": `{"outputs":[0.5,0.25]}`,
		"/v2/models/m/infer":              `{"model_name":"m","outputs":[{"name":"o","shape":[2,1],"data":[1,2]}]}`,
	} {
		inBubble(t, func(t *testing.T, w *world) {
			w.begin()
			defer w.end()
			w.edge.script = func(prompt string, _ int, _ <-chan struct{}, ctx *fasthttp.RequestCtx) {
				if string(ctx.Path()) != endpoint {
					t.Errorf("%s was asked", ctx.Path())
				}
				if prompt == "1" {
					ctx.SetStatusCode(400)
					ctx.SetBodyString(`{"error":"no such column"}`)
					return
				}
				ctx.SetBodyString(answer)
			}
			text := strings.ReplaceAll(strings.ReplaceAll(linesOf(3), "/v1/completions", endpoint), `"model":"m",`, "")
			status, b := w.ask("POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, w.input(text), endpoint))
			if status != 200 {
				t.Fatalf("%d %v", status, b)
			}
			b = w.until(b["id"].(string), StatusCompleted)
			used, _ := b["usage"].(map[string]any)
			if fmt.Sprint(b["request_counts"]) != "map[completed:2 failed:1 total:3]" || b["model"] != "m" || used["input_tokens"] != 4.0 {
				t.Errorf("%s: %v", endpoint, b)
			}
			if l := w.content(b["error_file_id"])["1"]; l.Response == nil || l.Response.Status != 400 || string(l.Response.Body) != `{"error":"no such column"}` {
				t.Errorf("%+v", l)
			}
		})
	}
}

func TestEndpointsOfPredictions(t *testing.T) {
	for endpoint, model := range map[string]string{
		"/v1/models/m:predict": "m", "/v1/models/a/b/versions/2:predict": "a/b", "/v2/models/m/infer": "m", "/v2/models/m/versions/7/infer": "m",
		"/v1/models/:predict": "", "/v2/models//infer": "", "/v1/models/m": "", "/v1/completions": "",
	} {
		if got, _ := predictedModel(endpoint); got != model {
			t.Errorf("%s: %q", endpoint, got)
		}
	}
	if text := faultMessage([]byte(`{"error":"too late"}`)); text != "too late" {
		t.Error(text)
	}
}
