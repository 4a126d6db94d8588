package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
)

// sideAttacks have much done beside the steps: parsing, hashing, looking up, writing to the disk.
var sideAttacks = []Attack{
	{Name: "images", About: "eight chats with an image of 7.5 MB", Clients: 8, request: func(_, client, turn int) (string, []byte) {
		image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(client), byte(turn), 7}, 1_900_000))
		return chatAttack(fields{"max_tokens": 1, "messages": []fields{{"role": "user", "content": []fields{
			{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": fields{"url": image}}}}}})
	}},
	{Name: "word", About: "sixteen words of 900 kB for /tokenize", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		return "/tokenize", encoded(fields{"model": clusterModel, "prompt": longWord(900_000, client, turn)})
	}},
	{Name: "masks", About: "sixteen streams that fit new lists of 500 words", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		words := make([]string, 500)
		for i := range words {
			words[i] = longWord(200, client, 1000*turn+i)
		}
		return chatAttack(fields{"messages": userSays("Choose."), "stream": true, "max_tokens": 100, "temperature": 1, "structured_outputs": fields{"choice": words}})
	}},
	{Name: "background", About: "64 background responses, again and again", Clients: 8, request: func(words, client, turn int) (string, []byte) {
		return "/v1/responses", encoded(fields{"model": clusterModel, "input": longText(words, client, turn), "background": true, "max_output_tokens": 200})
	}},
	{Name: "usage", About: "32 clients that ask for their usage", Clients: 32, do: look("/v1/usage", attackerKey)},
	{Name: "files", About: "32 clients that list files and batches", Clients: 32, do: look("/v1/files?limit=10000", attackerKey)},
	{Name: "strangers", About: "64 clients with an unknown key", Clients: 64, do: look("/v1/models", "sk-unknown")},
	{Name: "pages", About: "32 clients that read the metrics", Clients: 32, do: look("/metrics", attackerKey)},
	{Name: "vocabulary", About: "32 clients that read the tokenizer", Clients: 32, do: look("/tokenizer_info", attackerKey)},
	{Name: "uploads", About: "sixteen uploads of 64 MB that are broken off at the half", Clients: 16, do: breakUpload},
}

// longWord has so many bytes without a space.
func longWord(bytes, client, turn int) string {
	var b strings.Builder
	x := uint32(client*7919 + turn*31 + 1)
	for range bytes {
		x = x*1664525 + 1013904223
		b.WriteByte('a' + byte(x>>24)%26)
	}
	return b.String()
}

// look reads what a path answers.
func look(path, key string) func(ctx context.Context, w *attacker, client, turn int) (int, error) {
	return func(ctx context.Context, w *attacker, _, _ int) (int, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, http.NoBody)
		if err != nil {
			return 0, err
		}
		q.Header.Set("Authorization", "Bearer "+key)
		res, err := w.client.Do(q)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}
}

// breakUpload sends half of a file as fast as it is taken, and leaves.
func breakUpload(ctx context.Context, w *attacker, client, turn int) (int, error) {
	const size = 64 << 20
	read, write := io.Pipe()
	defer read.Close()
	form := multipart.NewWriter(write)
	go func() {
		err := form.WriteField("purpose", "user_data")
		if file, err2 := form.CreateFormFile("file", "half"); err == nil && err2 == nil {
			block := []byte(fmt.Sprintf("%08d%08d", client, turn) + strings.Repeat("x", 64<<10))
			for sent := 0; sent < size/2 && err == nil; sent += len(block) {
				_, err = file.Write(block)
			}
		}
		write.CloseWithError(errHungUp)
	}()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/files", read)
	if err != nil {
		return 0, err
	}
	q.ContentLength = size
	q.Header.Set("Content-Type", form.FormDataContentType())
	q.Header.Set("Authorization", "Bearer "+attackerKey)
	res, err := w.client.Do(q)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}
