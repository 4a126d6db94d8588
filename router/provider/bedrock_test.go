package provider

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// TestBedrockRequest: the request is what Amazon's own SDK sends for the same conversation.
func TestBedrockRequest(t *testing.T) {
	sameJSON(t, requestOf(t, Bedrock, "anthropic.claude", conversation), `{
		"system":[{"text":"Be brief.\n\nBe kind."}],
		"messages":[
			{"role":"user","content":[{"text":"What is this, and how warm is it in Rome and in Oslo?"},{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}}]},
			{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"weather","input":{"city":"Rome"}}},{"toolUse":{"toolUseId":"call_2","name":"weather","input":{"city":"Oslo"}}}]},
			{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"25"}]}},{"toolResult":{"toolUseId":"call_2","content":[{"text":"-3"}]}},{"text":"Go on."}]}],
		"toolConfig":{"tools":[{"toolSpec":{"name":"weather","description":"The weather","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}},
			{"toolSpec":{"name":"now","inputSchema":{"json":{"type":"object","properties":{}}}}}],"toolChoice":{"any":{}}},
		"inferenceConfig":{"maxTokens":300,"temperature":1,"topP":0.9,"stopSequences":["END","FIN"]}}`)
}

func TestBedrockParameters(t *testing.T) {
	const user = `{"role":"user","content":"Hi"}`
	for _, tc := range []struct{ model, fields, want string }{
		{"eu.anthropic.claude-sonnet-4-5-v1:0", `"reasoning_effort":"low","max_tokens":500`, `"inferenceConfig":{"maxTokens":1524},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024}}`},
		{"anthropic.claude-opus-5", `"reasoning_effort":"high","temperature":0.5`, `"inferenceConfig":{},"additionalModelRequestFields":{"thinking":{"type":"adaptive"}},"outputConfig":{"effort":"high"}`},
		{"amazon.nova-pro-v1:0", `"reasoning_effort":"high","user":"u","top_k":5`, `"inferenceConfig":{}`},
		{"m", `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`,
			`"inferenceConfig":{},"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"name":"a","schema":"{\"type\":\"object\"}"}}}}`},
		{"m", `"tools":[{"type":"function","function":{"name":"f","strict":true}}],"tool_choice":{"type":"function","function":{"name":"f"}}`,
			`"inferenceConfig":{},"toolConfig":{"tools":[{"toolSpec":{"name":"f","strict":true,"inputSchema":{"json":{"type":"object","properties":{}}}}}],"toolChoice":{"tool":{"name":"f"}}}`},
	} {
		got := requestOf(t, Bedrock, tc.model, `{"messages":[`+user+`],`+tc.fields+`}`)
		delete(got, "messages")
		sameJSON(t, got, `{`+tc.want+`}`)
	}
	if got := Bedrock.Path("us.amazon.nova-micro-v1:0", true); got != "/model/us.amazon.nova-micro-v1%3A0/converse-stream" {
		t.Error(got)
	}
	if got := Bedrock.Path("arn:aws:bedrock:us-east-1:1:inference-profile/x", false); got != "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/converse" {
		t.Error(got)
	}
}

// TestSignatures: botocore 1.44.8 has computed these for the same request, time and keys.
func TestSignatures(t *testing.T) {
	for token, want := range map[string]string{
		"":      "SignedHeaders=content-length;content-type;host;x-amz-date, Signature=b8fb2196369982f781bee895d9d746655c80a5142cefc294e465c318c2d2fd92",
		"TOKEN": "SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-security-token, Signature=fcd1c2863658a2c8b0e7fbd174061cc3c06a10f35440c69d1d8c955d494f8ec4",
	} {
		body := []byte(`{"messages":[]}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://bedrock-runtime.us-east-1.amazonaws.com"+Bedrock.Path("us.amazon.nova-micro-v1:0", true), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", "weir")
		keys := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: token}
		if err := signAmazon(req, keys, "us-east-1", body, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
		if got := req.Header.Get("Authorization"); got != "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/bedrock/aws4_request, "+want {
			t.Errorf("%q: %s", token, got)
		}
	}
}

func TestAmazonCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	const text = "[default]\naws_access_key_id = A\naws_secret_access_key=S=1\n# aws_session_token = no\n\n[ other ]\naws_access_key_id=B\naws_secret_access_key=T\naws_session_token=K\n[half]\naws_access_key_id=C\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env  map[string]string
		want aws.Credentials
		fail string
	}{
		{env: map[string]string{"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "F", "AWS_SHARED_CREDENTIALS_FILE": path}, want: aws.Credentials{AccessKeyID: "E", SecretAccessKey: "F"}},
		{env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": path}, want: aws.Credentials{AccessKeyID: "A", SecretAccessKey: "S=1"}},
		{env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "other"}, want: aws.Credentials{AccessKeyID: "B", SecretAccessKey: "T", SessionToken: "K"}},
		{env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "half"}, fail: `profile "half"`},
		{env: map[string]string{"HOME": t.TempDir()}, fail: "AWS_ACCESS_KEY_ID"},
	} {
		got, err := amazonCredentials(func(name string) string { return tc.env[name] })
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("%v: %v", tc.env, err)
			}
			continue
		}
		if err != nil || got != tc.want {
			t.Errorf("%v: %v %v", tc.env, got, err)
		}
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for host, want := range map[string]string{
		"bedrock-runtime.eu-central-1.amazonaws.com": "eu-central-1", "bedrock-runtime-fips.us-east-1.amazonaws.com": "us-east-1",
		"vpce-1-x.bedrock-runtime.us-west-2.vpce.amazonaws.com": "us-west-2", "localhost": "",
	} {
		if got, err := regionOf(host); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q %v", host, got, err)
		}
	}
}

// eventMessage is a message of an event stream, written by Amazon's own encoder.
func eventMessage(t testing.TB, kind, nameHeader, name, payload string) []byte {
	t.Helper()
	var out bytes.Buffer
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(nameHeader, eventstream.StringValue(name))
	if kind == "error" {
		m.Headers.Set(":error-message", eventstream.StringValue(payload))
	}
	if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestBedrockErrors: each error, as an answer and as a message of a stream, has the status of its kind.
func TestBedrockErrors(t *testing.T) {
	for _, tc := range []struct {
		status        int
		name, message string
		want          int
	}{
		{429, "ThrottlingException", "Too many requests", 429}, {429, "ModelNotReadyException", "warming", 429}, {400, "ServiceQuotaExceededException", "quota", 429},
		{400, "ValidationException", "bad", 400}, {400, "ValidationException", "The provided model identifier is invalid.", 404}, {403, "AccessDeniedException", "no", 403},
		{403, "UnrecognizedClientException", "token", 403}, {403, "ExpiredTokenException", "old", 403}, {404, "ResourceNotFoundException", "gone", 404},
		{408, "ModelTimeoutException", "late", 504}, {424, "ModelErrorException", "model", 502}, {500, "InternalServerException", "oops", 500}, {503, "ServiceUnavailableException", "later", 503},
	} {
		h := http.Header{"X-Amzn-Errortype": {tc.name + ":http://internal.amazon.com/coral/com.amazon.bedrock/"}}
		body := fmt.Sprintf(`{"message":%q}`, tc.message)
		status, told := Error(Bedrock, tc.status, h, []byte(body))
		if status != tc.want || !strings.Contains(string(told), tc.message) || !strings.Contains(string(told), tc.name) {
			t.Errorf("%s: %d %s", tc.name, status, told)
		}
		stream := eventMessage(t, "exception", ":exception-type", strings.ToLower(tc.name[:1])+tc.name[1:], body)
		c, err := readStream(t, Bedrock, bytes.NewReader(stream))
		if err != nil || c.done || !strings.HasPrefix(c.failed, fmt.Sprint(tc.want)) || !strings.Contains(c.failed, tc.message) {
			t.Errorf("%s: %v %+v", tc.name, err, c)
		}
	}
	c, err := readStream(t, Bedrock, bytes.NewReader(eventMessage(t, "error", ":error-code", "InternalFailure", "gone wrong")))
	if err != nil || !strings.HasPrefix(c.failed, "500 InternalFailure: gone wrong") {
		t.Errorf("%v %+v", err, c)
	}
	if status, told := Error(Bedrock, 502, make(http.Header), []byte("<html>")); status != 502 || strings.Contains(string(told), "html") {
		t.Errorf("%d %s", status, told)
	}
	for reason, want := range map[string]string{"guardrail_intervened": "content_filter", "content_filtered": "content_filter", "max_tokens": "length", "malformed_tool_use": ""} {
		stream := slicesConcat(eventMessage(t, "event", ":event-type", "messageStop", fmt.Sprintf(`{"stopReason":%q}`, reason)),
			eventMessage(t, "event", ":event-type", "metadata", `{"usage":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":30,"cacheWriteInputTokens":400}}`))
		c, err := readStream(t, Bedrock, bytes.NewReader(stream))
		if err != nil || c.reason != want || c.done != (want != "") || want != "" && c.usage != [4]int64{431, 30, 2} {
			t.Errorf("%s: %v %+v", reason, err, c)
		}
	}
}

func slicesConcat(list ...[]byte) []byte { return bytes.Join(list, nil) }

// TestDamagedEventStreams: a bit that has changed, and a length that no message has, are found out before anything of the message is said.
func TestDamagedEventStreams(t *testing.T) {
	data := recorded(t, "bedrock/text.eventstream")
	first := int(binary.BigEndian.Uint32(data))
	for at := first; at < len(data); at += 31 {
		damaged := bytes.Clone(data)
		damaged[at] ^= 4
		c, err := readStream(t, Bedrock, bytes.NewReader(damaged))
		if c.done || !errors.Is(err, ErrUnreadable) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("byte %d: %v %+v", at, err, c)
		}
	}
	prelude := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 15<<20), 0)
	prelude = binary.BigEndian.AppendUint32(prelude, crc32.ChecksumIEEE(prelude))
	read := 0
	endless := readerFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil })
	if _, err := readStream(t, Bedrock, io.MultiReader(bytes.NewReader(prelude), endless)); !errors.Is(err, ErrUnreadable) || read > maxEventBytes {
		t.Errorf("%v after %d bytes", err, read)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestBedrockWholeAndStream: an answer that goes back as history is the one that came.
func TestBedrockWholeAndStream(t *testing.T) {
	whole := readWhole(t, Bedrock, recorded(t, "bedrock/reasoning.json"))
	if len(whole.blocks) != 1 || whole.blocks[0].Signature == "" || !strings.HasPrefix(whole.thought, "Let me count the r's") || whole.reason != "stop" {
		t.Errorf("%+v", whole)
	}
	history, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": "?"}, map[string]any{"role": "assistant", "content": whole.text, "thinking_blocks": whole.blocks}, map[string]any{"role": "user", "content": "!"}}})
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Output struct{ Message struct{ Content []any } }
	}
	if err := json.Unmarshal(recorded(t, "bedrock/reasoning.json"), &said); err != nil {
		t.Fatal(err)
	}
	back := requestOf(t, Bedrock, "m", string(history))["messages"].([]any)[1].(map[string]any) //nolint:forcetypeassert // it always is one
	want, _ := json.Marshal(said.Output.Message.Content)
	sameJSON(t, back["content"], string(want))
}

// TestBedrockCallWithoutArguments: a call that was recorded without a piece of arguments has an empty object.
func TestBedrockCallWithoutArguments(t *testing.T) {
	var stream []byte
	for line := range bytes.SplitSeq(recorded(t, "bedrock/tool-no-args.chunks.txt"), []byte("\n")) {
		var event map[string]json.RawMessage
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		for name, payload := range event {
			stream = append(stream, eventMessage(t, "event", ":event-type", name, string(payload))...)
		}
	}
	c, err := readStream(t, Bedrock, bytes.NewReader(stream))
	if err != nil || !c.done || len(c.calls) != 1 || !strings.HasSuffix(c.calls[0], " {}") || c.reason != "tool_calls" || c.usage[2] == 0 {
		t.Errorf("%v %+v", err, c)
	}
}
