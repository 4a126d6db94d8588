package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// keptAttacks have much kept: in the store, in the KV cache, in memory of connections.
var keptAttacks = []Attack{
	{Name: "keys", About: "32 clients that ask for one token, each time under a new Idempotency-Key", Clients: 32,
		header: func(h http.Header, client, turn int) {
			h.Set("Idempotency-Key", fmt.Sprintf("key-%d-%d", client, turn))
		},
		request: func(_, client, turn int) (string, []byte) {
			return completionAttack(fields{"prompt": fmt.Sprintf("%d-%d is", client, turn), "max_tokens": 1})
		}},
	{Name: "chains", About: "eight conversations of responses that grow to the context", Clients: 8, do: growChain},
	{Name: "filling", About: "64 streams that fill the KV cache", Clients: 64, request: func(words, client, turn int) (string, []byte) {
		return completionAttack(fields{"prompt": longText(words, client, turn), "stream": true, "max_tokens": 4000, "ignore_eos": true})
	}},
	{Name: "heads", About: "32 requests with 15 kB of header fields", Clients: 32,
		header: func(h http.Header, client, turn int) {
			for i := range 15 {
				h.Set(fmt.Sprintf("X-Field-%d-%d-%d", client, turn, i), strings.Repeat("v", 950))
			}
		},
		request: func(_, client, turn int) (string, []byte) {
			return completionAttack(fields{"prompt": fmt.Sprintf("%d-%d is", client, turn), "max_tokens": 1})
		}},
	{Name: "slow", About: "a thousand connections that send a byte of a head each second", Clients: 1000, do: sendSlowly(0)},
	{Name: "bodies", About: "eight bodies of 7.9 MB of nested lists", Clients: 8, request: func(_, client, turn int) (string, []byte) {
		deep := strings.Repeat("[1,[2,{\"k\":[3]}]],", 415_000)
		return EndpointChat, fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"%d-%d"}],"max_tokens":1,"unknown":[%s0]}`, clusterModel, client, turn, deep)
	}},
	{Name: "halves", About: "32 bodies of 8 MB of which half comes at once, and then a byte each second", Clients: 32, do: sendSlowly(4 << 20)},
	{Name: "stops", About: "sixteen streams with 16 stop strings of 4 KiB", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		stops := make([]string, 16) // no more are taken
		for i := range stops {
			stops[i] = strings.Repeat(string("etaoinshrdlucmfw"[i]), 4095) + "!"
		}
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Tell ", client, turn)), "stream": true, "stop": stops, "max_tokens": 200, "ignore_eos": true})
	}},
	{Name: "batches", About: "two clients that send a batch of 2,000 lines, again and again", Clients: 2, do: sendBatch},
}

// batchLines is how many lines a batch of the attack has.
const batchLines = 2000

// sendBatch uploads a file of requests and has them run.
func sendBatch(ctx context.Context, w *attacker, client, turn int) (status int, err error) {
	var lines bytes.Buffer
	for i := range batchLines {
		line := fields{"custom_id": strconv.Itoa(i), "method": http.MethodPost, "url": EndpointCompletions,
			"body": fields{"model": clusterModel, "prompt": fmt.Sprintf("%d-%d-%d is", client, turn, i), "max_tokens": 8}}
		lines.Write(encoded(line))
		lines.WriteByte('\n')
	}
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	if err := parts.WriteField("purpose", "batch"); err != nil {
		return 0, err
	}
	file, err := parts.CreateFormFile("file", "lines.jsonl")
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(file, &lines); err != nil {
		return 0, err
	}
	if err := parts.Close(); err != nil {
		return 0, err
	}
	var made struct{ ID string }
	if status, err = w.ask(ctx, "/v1/files", form.Bytes(), parts.FormDataContentType(), &made); err != nil || status != http.StatusOK {
		return status, err
	}
	batch := fields{"input_file_id": made.ID, "endpoint": EndpointCompletions, "completion_window": "24h"}
	return w.ask(ctx, "/v1/batches", encoded(batch), "", nil)
}

// growChain goes on from the client's last response; from the beginning where it does not fit any more.
func growChain(ctx context.Context, w *attacker, client, turn int) (status int, err error) {
	body := fields{"model": clusterModel, "input": longText(w.words, client, turn), "max_output_tokens": 8}
	w.mu.Lock()
	if last := w.last[client]; last != "" {
		body["previous_response_id"] = last
	}
	w.mu.Unlock()
	var made struct{ ID string }
	status, err = w.ask(ctx, "/v1/responses", encoded(body), "", &made)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[client] = made.ID
	return status, err
}

// sendSlowly opens a connection and sends a request's head with a body of 8 MB, of which so many bytes come, and then a byte each
// second; without any the head does.
func sendSlowly(bytes int) func(ctx context.Context, w *attacker, client, turn int) (int, error) {
	return func(ctx context.Context, w *attacker, _, _ int) (int, error) {
		at, err := url.Parse(w.url)
		if err != nil {
			return 0, err
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", at.Host)
		if err != nil {
			sleep(ctx, time.Second) // not to try without end
			return 0, err
		}
		defer conn.Close()
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", EndpointChat, at.Host, attackerKey)
		if bytes > 0 {
			head += fmt.Sprintf("Content-Length: %d\r\n\r\n{\"unknown\":\"%s", 8<<20, strings.Repeat("x", bytes))
		}
		if _, err := io.WriteString(conn, head); err != nil {
			return 0, err
		}
		for sleep(ctx, time.Second) {
			if _, err := io.WriteString(conn, "x"); err != nil {
				return 0, err
			}
		}
		return 0, ctx.Err()
	}
}

// ask sends a request, reads its answer, and takes it apart where it is wanted.
func (w *attacker) ask(ctx context.Context, path string, body []byte, contentType string, answer any) (status int, err error) {
	q, err := w.newRequest(ctx, path, body)
	if err != nil {
		return 0, err
	}
	if contentType != "" {
		q.Header.Set("Content-Type", contentType)
	}
	res, err := w.client.Do(q)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && answer != nil && res.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, answer)
	}
	return res.StatusCode, err
}
