package fleet

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"weir/router"
)

const (
	echoedKey = "sk-secret/0123456789+abcdef"
	// echoed is what a server that repeats its request's header says.
	echoed    = `bad request: {'X-Api-Key': '` + echoedKey + `', 'Authorization': 'Bearer ` + echoedKey + `'} `
	begunText = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: content_block_delta\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"said\"}}\n\n"
)

func typedError(message string) string {
	return "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"" + message + "\"}}\n\n"
}

func amazonError(t *testing.T, message string) string {
	t.Helper()
	var out bytes.Buffer
	m := eventstream.Message{Payload: []byte(`{"message":"` + message + `"}`)}
	m.Headers.Set(":message-type", eventstream.StringValue("exception"))
	m.Headers.Set(":exception-type", eventstream.StringValue("modelStreamErrorException"))
	if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// echoes are servers that repeat the credential in their errors.
var echoes = []struct {
	name   string
	kind   Kind
	path   string
	media  string
	status int // 0: 200
	text   string
}{
	{"refusal", OpenAI, chatPath, "", 400, `{"error":{"message":"` + echoed + `"}}`},
	{"refusal", OpenAI, chatPath, "", 500, `{"error":{"message":"` + strings.ReplaceAll(echoed, "/", `\/`) + `"}}`},
	{"page", OpenAI, chatPath, "", 529, "<html>" + echoed},
	{"page for an answer", OpenAI, chatPath, "", 0, "<html>" + echoed},
	{"page that is cut", OpenAI, chatPath, "", 0, "<html>" + strings.Repeat(" ", 175) + echoedKey},
	{"error in an answer", OpenAI, chatPath, "", 0, `{"error":{"message":"` + echoed + `"}}`},
	{"first event", OpenAI, chatPath, serverSent, 0, `data: {"error":{"message":"` + echoed + `"}}` + "\n\n"},
	{"later event", OpenAI, chatPath, serverSent, 0, event("said") + `data: {"error":{"message":"` + echoed + `"}}` + "\n\n"},
	{"later event that is no JSON", OpenAI, chatPath, serverSent, 0, event("said") + `data: {"error: ` + echoed + "\n\n"},
	{"refusal", Anthropic, chatPath, "", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"` + echoed + `"}}`},
	{"overload", Anthropic, chatPath, "", 529, `{"type":"error","error":{"type":"overloaded_error","message":"` + echoed + `"}}`},
	{"first event", Anthropic, chatPath, serverSent, 0, typedError(echoed)},
	{"later event", Anthropic, chatPath, serverSent, 0, begunText + typedError(echoed)},
	{"event that is no JSON", Anthropic, chatPath, serverSent, 0, "data: {\"type" + echoed + "\n\n"},
	{"refusal of a message", Anthropic, "/messages", "", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"` + echoed + `"}}`},
	{"first event of a message", Anthropic, "/messages", serverSent, 0, typedError(echoed)},
	{"later event of a message", Anthropic, "/messages", serverSent, 0, begunText + typedError(echoed)},
	{"later event without a type", Anthropic, "/messages", serverSent, 0, begunText + `event: error` + "\n" + `data: {"error":"` + echoed + `"}` + "\n\n"},
	{"last event without an end", Anthropic, "/messages", serverSent, 0, begunText + strings.TrimSpace(typedError(echoed))},
	{"refusal", Gemini, chatPath, "", 400, `{"error":{"code":400,"message":"` + echoed + `","status":"INVALID_ARGUMENT"}}`},
	{"first event", Gemini, chatPath, serverSent, 0, `data: {"error":{"code":500,"message":"` + echoed + `","status":"INTERNAL"}}` + "\n\n"},
	{"refusal", Bedrock, chatPath, "", 500, `{"message":"` + echoed + `"}`},
	{"exception", Bedrock, chatPath, amazonSent, 0, ""},
}

// TestErrorsKeepTheCredential: a server that repeats this server's credential in an error tells it neither the caller nor the reader of the
// record of the attempt.
func TestErrorsKeepTheCredential(t *testing.T) {
	for _, tc := range echoes {
		t.Run(string(tc.kind)+" "+tc.name, func(t *testing.T) {
			if tc.media == amazonSent {
				tc.text = amazonError(t, echoed)
			}
			p := newProvided(t, tc.media, tc.status, "", tc.text)
			f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: tc.kind, APIKey: echoedKey, Model: "m"}}})
			c := call(streamed + `,` + userSays)
			c.Path, c.Stream = tc.path, tc.media != ""
			var told []string
			c.Tried = func(a *router.Attempt) { told = append(told, a.Failed) }
			got, text, err := take(t, f, c)
			if p.calls.Load() == 0 || len(told) == 0 {
				t.Fatalf("asked %d times, told of %d", p.calls.Load(), len(told))
			}
			all := text + strings.Join(told, "\n")
			if err != nil {
				all += err.Error()
			}
			for _, secret := range []string{echoedKey, strings.ReplaceAll(echoedKey, "/", `\/`), echoedKey[:minSecretBytes]} {
				if strings.Contains(all, secret) {
					t.Errorf("%+v: the credential is told: %s", got, all)
				}
			}
			if !strings.Contains(all, withheldText) {
				t.Errorf("%+v: nothing stands for the credential: %s", got, all)
			}
		})
	}
}

// TestContentKeepsItsText: what is no error passes as it is, also where it has the credential's words in it, and a short credential is no
// word to look for.
func TestContentKeepsItsText(t *testing.T) {
	for _, key := range []string{echoedKey, "bad"} {
		said := event(echoedKey)
		p := newProvided(t, serverSent, 0, "", said+last+done)
		f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: OpenAI, APIKey: Key(key)}}})
		if _, text, err := take(t, f, call(streamed+`,`+userSays)); err != nil || text != said+last+done {
			t.Errorf("%v %s", err, text)
		}
		whole := `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + echoedKey + `"},"finish_reason":"stop"}]}`
		p = newProvided(t, "application/json", 0, "", whole)
		f = fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: OpenAI, APIKey: Key(key)}}})
		c := call(userSays)
		if _, text, err := take(t, f, c); err != nil || text != whole {
			t.Errorf("%v %s", err, text)
		}
	}
	p := newProvided(t, "", 400, "", `{"error":"bad"}`)
	f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: OpenAI, APIKey: "bad"}}})
	if _, text, err := take(t, f, call(userSays)); err != nil || text != `{"error":"bad"}` {
		t.Errorf("%v %s", err, text)
	}
}

// TestSignaturesKeepTheirSecret: what signs a request to Bedrock, or vouches for the session, is no part of an error.
func TestSignaturesKeepTheirSecret(t *testing.T) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY")
	t.Setenv("AWS_SESSION_TOKEN", "session/token+0123456789")
	t.Setenv("AWS_REGION", "eu-central-1")
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(map[string]string{"message": r.Header.Get("X-Amz-Security-Token") + " wJalrXUtnFEMI/K7MDENG+bPxRfiCY"})
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(body)
	}))
	t.Cleanup(p.Close)
	f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: Bedrock, Model: "m"}}})
	if _, text, err := take(t, f, call(userSays)); err != nil || !strings.Contains(text, `"message":"*** ***"`) {
		t.Errorf("%v %s", err, text)
	}
}
