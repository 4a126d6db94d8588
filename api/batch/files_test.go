package batch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"weir/api"
	"weir/api/edge"
)

// served is a world behind a listener.
type served struct {
	*world
	ln *fasthttputil.InmemoryListener
}

func serveWorld(t *testing.T, change func(*Limits)) *served {
	t.Helper()
	w := newWorld(t)
	change(&w.limit)
	w.begin()
	s := &served{w, fasthttputil.NewInmemoryListener()}
	config := api.DefaultConfig()
	config.MaxRequestBytes, config.BodyMemoryBytes = 4<<10, 8<<10
	server := api.New(config, w.mux)
	done := make(chan error, 1)
	go func() { done <- server.Serve(s.ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-done
	})
	return s
}

// form is a multipart body: pairs of name and value; a name that begins with @ is that of the file.
func formOf(t *testing.T, parts ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		create, name := m.CreateFormField, parts[i]
		if file, found := strings.CutPrefix(name, "@"); found {
			create, name = func(name string) (io.Writer, error) { return m.CreateFormFile("file", name) }, file
		}
		w, err := create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, parts[i+1]) // into memory
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return m.FormDataContentType(), b.String()
}

// send sends a request and reads its answer.
func (s *served) send(method, path, contentType, body string) (*http.Response, map[string]any, string) {
	s.t.Helper()
	c, err := s.ln.Dial()
	if err != nil {
		s.t.Fatal(err)
	}
	defer func(c net.Conn) { _ = c.Close() }(c)
	go func() { // a refusal may come before the body is sent
		_, _ = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", method, path, contentType, len(body), body)
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var answer map[string]any
	_ = json.Unmarshal(text, &answer) // content is no JSON
	return res, answer, string(text)
}

func (s *served) upload(parts ...string) (*http.Response, map[string]any) {
	s.t.Helper()
	contentType, body := formOf(s.t, parts...)
	res, answer, _ := s.send("POST", "/v1/files", contentType, body)
	return res, answer
}

// left are the files in a folder of the server's.
func (s *served) left(sub string) int {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, sub))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(entries)
}

func TestFilesComeAndGo(t *testing.T) {
	s := serveWorld(t, func(*Limits) {})
	text := strings.Repeat("0123456789abcdef\n", 10_000) // above the limit of other bodies
	res, f := s.upload("purpose", "user_data", "@dir/a \"b\"\\c.txt", text, "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600")
	if res.StatusCode != 200 || f["bytes"] != float64(len(text)) || f["filename"] != "c.txt" || f["purpose"] != "user_data" ||
		f["expires_at"].(float64)-f["created_at"].(float64) != 3600 || f["object"] != "file" {
		t.Fatalf("%d %v", res.StatusCode, f)
	}
	id := f["id"].(string)
	_, forever := s.upload("@b", "x", "purpose", "user_data")
	if forever["expires_at"] != nil {
		t.Errorf("%v", forever)
	}
	if res, got, _ := s.send("GET", "/v1/files/"+id, "", ""); res.StatusCode != 200 || fmt.Sprint(got) != fmt.Sprint(f) {
		t.Errorf("%d %v, want %v", res.StatusCode, got, f)
	}
	if res, _, got := s.send("GET", "/v1/files/"+id+"/content", "", ""); res.StatusCode != 200 || got != text || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, %d bytes, %v", res.StatusCode, len(got), res.Header)
	}
	if res, _, got := s.send("HEAD", "/v1/files/"+id+"/content", "", ""); res.StatusCode != 200 || got != "" || res.ContentLength != int64(len(text)) {
		t.Errorf("HEAD: %d, %d bytes, %d", res.StatusCode, len(got), res.ContentLength)
	}
	if _, list, _ := s.send("GET", "/v1/files?purpose=user_data&limit=1", "", ""); list["has_more"] != true || list["first_id"] == nil || list["first_id"] != list["last_id"] {
		t.Errorf("%v", list)
	}
	if _, list, text := s.send("GET", "/v1/files?purpose=batch", "", ""); fmt.Sprint(list["data"]) != "[]" || list["first_id"] != nil {
		t.Error(text)
	}
	for _, id := range []string{id, forever["id"].(string)} {
		if res, got, _ := s.send("DELETE", "/v1/files/"+id, "", ""); res.StatusCode != 200 || got["deleted"] != true {
			t.Errorf("%d %v", res.StatusCode, got)
		}
		if res, _, _ := s.send("GET", "/v1/files/"+id, "", ""); res.StatusCode != 404 {
			t.Errorf("a deleted file: %d", res.StatusCode)
		}
	}
	if n := s.left(filesFolder) + s.left(newFolder); n != 0 {
		t.Errorf("%d files are left on the disk", n)
	}
}

func TestUploadsThatAreRefusedLeaveNothing(t *testing.T) {
	s := serveWorld(t, func(l *Limits) { l.FileBytes, l.TenantBytes = 100_000, 150_000 })
	ok, large := strings.Repeat("x", 10), strings.Repeat("x", 100_001)
	for name, c := range map[string]struct {
		parts  []string
		status int
		code   string
	}{
		"no file":        {[]string{"purpose", "batch"}, 400, "missing_required_parameter"},
		"no purpose":     {[]string{"@a", ok}, 400, "missing_required_parameter"},
		"wrong purpose":  {[]string{"@a", ok, "purpose", "fine-tune"}, 400, "invalid_value"},
		"output":         {[]string{"@a", ok, "purpose", "batch_output"}, 400, "invalid_value"},
		"two files":      {[]string{"@a", ok, "@b", ok, "purpose", "batch"}, 400, "duplicate_parameter"},
		"two purposes":   {[]string{"purpose", "batch", "purpose", "batch", "@a", ok}, 400, "duplicate_parameter"},
		"unknown part":   {[]string{"purpose", "batch", "@a", ok, "other", "x"}, 400, "unknown_parameter"},
		"long field":     {[]string{"purpose", strings.Repeat("b", 2000), "@a", ok}, 400, "invalid_value"},
		"no anchor":      {[]string{"purpose", "batch", "@a", ok, "expires_after[seconds]", "3600"}, 400, "invalid_value"},
		"short life":     {[]string{"purpose", "batch", "@a", ok, "expires_after[anchor]", "created_at", "expires_after[seconds]", "3599"}, 400, "invalid_value"},
		"long life":      {[]string{"purpose", "batch", "@a", ok, "expires_after[anchor]", "created_at", "expires_after[seconds]", "2592001"}, 400, "invalid_value"},
		"too large":      {[]string{"purpose", "batch", "@a", large}, 413, "request_too_large"},
		"much too large": {[]string{"purpose", "batch", "@a", strings.Repeat("x", 1<<20)}, 413, "request_too_large"},
	} {
		if res, got := s.upload(c.parts...); res.StatusCode != c.status || res.Header.Get("X-Weir-Reason") != c.code {
			t.Errorf("%s: %d %v, want %d %s", name, res.StatusCode, got, c.status, c.code)
		}
	}
	for name, c := range map[string]struct{ contentType, body, code string }{
		"JSON":        {"application/json", "{}", "unsupported_media_type"},
		"no boundary": {"multipart/form-data", "x", "unsupported_media_type"},
		"no form":     {"multipart/form-data; boundary=b", "nothing", "missing_required_parameter"},
		"cut short":   {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc", "malformed_request"},
	} {
		if res, got, _ := s.send("POST", "/v1/files", c.contentType, c.body); res.Header.Get("X-Weir-Reason") != c.code {
			t.Errorf("%s: %d %v, want %s", name, res.StatusCode, got, c.code)
		}
	}
	if n := s.left(filesFolder) + s.left(newFolder); n != 0 || len(s.store.files) != 0 {
		t.Errorf("%d files are left on the disk, %d in the store", n, len(s.store.files))
	}
	if res, got := s.upload("purpose", "batch", "@a", strings.Repeat("x", 90_000)); res.StatusCode != 200 {
		t.Fatalf("%d %v", res.StatusCode, got)
	}
	if res, got := s.upload("purpose", "batch", "@a", strings.Repeat("x", 70_000)); res.StatusCode != 429 || res.Header.Get("X-Weir-Reason") != "insufficient_quota" {
		t.Errorf("beyond the tenant's bytes: %d %v", res.StatusCode, got)
	}
	if n := s.left(newFolder); n != 0 || s.left(filesFolder) != 1 {
		t.Errorf("%d drafts are left", n)
	}
}

// A body under a content coding that it does not have, or that is not known, is refused for it, and not for what its bytes look like.
func TestCodedOrdersAreRefused(t *testing.T) {
	w := newWorld(t)
	w.begin()
	defer w.end()
	for coding, want := range map[string]string{"gzip": "malformed_request", "br": "unsupported_media_type", "identity": "missing_required_parameter"} {
		ctx := newInternalRequest("POST", "/v1/batches", []byte("{}"))
		ctx.Request.Header.Set("Content-Encoding", coding)
		w.mux.Handle(ctx)
		if got := string(ctx.Response.Header.Peek("X-Weir-Reason")); got != want {
			t.Errorf("%s: %d %s, want %s", coding, ctx.Response.StatusCode(), got, want)
		}
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.begin()
	defer w.end()
	input := w.input(linesOf(1))
	user := w.input("x")
	w.store.mu.Lock()
	f := w.store.files[user]
	f.Purpose = PurposeUser
	w.store.files[user] = f
	w.store.mu.Unlock()
	order := func(change func(map[string]any)) string {
		o := map[string]any{"input_file_id": input, "endpoint": "/v1/completions", "completion_window": "24h"}
		change(o)
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	set := func(key string, value any) string { return order(func(o map[string]any) { o[key] = value }) }
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"no JSON":           {"{", 400, "invalid_json"},
		"number for a file": {set("input_file_id", 7), 400, "invalid_type"},
		"no file":           {set("input_file_id", ""), 400, "missing_required_parameter"},
		"unknown file":      {set("input_file_id", "file-0"), 404, "file_not_found"},
		"another purpose":   {set("input_file_id", user), 400, "invalid_value"},
		"no endpoint":       {set("endpoint", ""), 400, "missing_required_parameter"},
		"unknown endpoint":  {set("endpoint", "/v1/images"), 400, "invalid_value"},
		"not served":        {set("endpoint", "/v1/responses"), 400, "invalid_value"},
		"no window":         {set("completion_window", ""), 400, "missing_required_parameter"},
		"odd window":        {set("completion_window", "1d"), 400, "invalid_value"},
		"short window":      {set("completion_window", "0h"), 400, "invalid_value"},
		"long window":       {set("completion_window", "169h"), 400, "invalid_value"},
		"much metadata":     {set("metadata", many), 400, "invalid_value"},
		"long metadata":     {set("metadata", map[string]string{"a": strings.Repeat("ü", 513)}), 400, "invalid_value"},
		"metadata of lists": {set("metadata", map[string]any{"a": []int{1}}), 400, "invalid_type"},
		"short output life": {set("output_expires_after", map[string]any{"anchor": "created_at", "seconds": 60}), 400, "invalid_value"},
		"empty output life": {set("output_expires_after", map[string]any{}), 400, "missing_required_parameter"},
	} {
		status, answer := w.ask("POST", "/v1/batches", c.body)
		fault, _ := answer["error"].(map[string]any)
		if status != c.status || fault["code"] != c.want {
			t.Errorf("%s: %d %v, want %d %s", name, status, answer, c.status, c.want)
		}
	}
	if len(w.store.batches) != 0 {
		t.Errorf("%d batches were made", len(w.store.batches))
	}
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/v1/batches/batch_0", "batch_not_found"}, {"POST", "/v1/batches/batch_0/cancel", "batch_not_found"},
		{"DELETE", "/v1/batches/batch_0", "method_not_allowed"}, {"GET", "/v1/batches?limit=101", "invalid_value"},
		{"GET", "/v1/batches?limit=0", "invalid_value"}, {"GET", "/v1/files?order=up", "invalid_value"},
	} {
		if _, answer := w.ask(c.method, c.path, ""); answer["error"].(map[string]any)["code"] != c.want {
			t.Errorf("%s %s: %v, want %s", c.method, c.path, answer, c.want)
		}
	}
}

func TestPathsThatAreNotOurs(t *testing.T) {
	w := newWorld(t)
	w.begin()
	defer w.end()
	for path, want := range map[string]bool{
		"/v1/files": true, "/v1/files/": true, "/v1/files/a": true, "/v1/files/a/content": true, "/v1/batches/b/cancel": true,
		"/v1/filesystem": false, "/v1/files/a/b": false, "/v1/files/../models": false, "/v1/files//content": false, "/v1/models": false,
	} {
		if e, _ := w.Find(edge.RequestPath([]byte(path))); (e != nil) != want {
			t.Errorf("%s: %v", path, e)
		}
	}
}

// What a crash left is deleted once it is old, and what the store knows stays.
func TestSweepDeletesOrphans(t *testing.T) {
	w := newWorld(t)
	w.begin()
	defer w.end()
	known := w.input("x")
	old := time.Now().Add(-2 * orphanAge)
	for _, path := range []string{filepath.Join(newFolder, "draft-1"), filepath.Join(filesFolder, "file-9"), filepath.Join(batchesFolder, "batch_9"), filepath.Join(filesFolder, known)} {
		for _, suffix := range []string{"", "-young"} {
			if path == filepath.Join(filesFolder, known) && suffix != "" {
				continue
			}
			name := filepath.Join(w.dir, path+suffix)
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if suffix == "" {
				if err := os.Chtimes(name, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.folder.sweep(t.Context(), w.store, time.Now()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, sub := range []string{newFolder, filesFolder, batchesFolder} {
		entries, _ := os.ReadDir(filepath.Join(w.dir, sub))
		for _, e := range entries {
			left = append(left, e.Name())
		}
	}
	if got := fmt.Sprint(left); got != fmt.Sprintf("[draft-1-young %s file-9-young batch_9-young]", known) && got != fmt.Sprintf("[draft-1-young file-9-young %s batch_9-young]", known) {
		t.Error(got)
	}
}
