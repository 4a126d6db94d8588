package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"weir/internal/jsonfault"
)

// maxCustomIDBytes bounds a line's own name.
const maxCustomIDBytes = 512

// Codes of what validation finds, in OpenAI's words where these are known. They are no codes of error answers.
const (
	lineInvalidJSON = "invalid_json_line"
	lineTooLarge    = "line_too_large"
	lineNoParameter = "missing_required_parameter"
	lineWrongType   = "invalid_type"
	lineWrongValue  = "invalid_value"
	lineWrongMethod = "invalid_method"
	lineWrongURL    = "invalid_url"
	lineTwice       = "duplicate_custom_id"
	lineOtherModel  = "mismatched_model"
	linesTooMany    = "too_many_lines"
	linesNone       = "empty_file"
	fileGone        = "file_not_found"
)

// line is one request of a batch.
type line struct {
	index    int // among the requests, from 0
	number   int // in the file, from 1
	customID string
	body     []byte // a JSON object
	model    string // of the body; "" names none
}

// lineReader reads the lines of an input file. A line longer than its limit ends it.
type lineReader struct {
	in     *bufio.Reader
	most   int // bytes of a line
	number int
	buf    []byte
}

func newLineReader(r io.Reader, maxLineBytes int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 64<<10), most: maxLineBytes}
}

// next is the next line that is not blank, without its end; io.EOF after the last one. The bytes are good
// until the next call. Any other error is a *LineError, or of the file.
func (r *lineReader) next() ([]byte, error) {
	for {
		text, err := r.read()
		if err != nil {
			return nil, err
		}
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // what some editors begin a file with
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return text, nil
		}
	}
}

func (r *lineReader) read() ([]byte, error) {
	r.number++
	r.buf = r.buf[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.buf)+len(part) > r.most+1 {
			return nil, &LineError{Code: lineTooLarge, Line: r.number,
				Message: fmt.Sprintf("the line is longer than %d bytes; ask for less in it", r.most)}
		}
		r.buf = append(r.buf, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(r.buf) > 0:
			return r.buf, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// parseLine reads a line as a request to an endpoint. The line keeps the bytes of text.
func parseLine(text []byte, endpoint string) (line, *LineError) {
	wrong := func(code, param, format string, args ...any) (line, *LineError) {
		return line{}, &LineError{Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
	}
	whole := text
	if _, predicts := predictedModel(endpoint); predicts { // whose rows may have NaN, as those of other requests
		text = jsonfault.WithoutNoNumbers(whole)
	}
	var l struct {
		CustomID *string         `json:"custom_id"`
		Method   *string         `json:"method"`
		URL      *string         `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		said := jsonfault.Describe(err, text)
		if t, is := errors.AsType[*json.UnmarshalTypeError](err); is && t.Field != "" {
			return wrong(lineWrongType, t.Field, "%v", said)
		}
		return wrong(lineInvalidJSON, "", "the line is no JSON object: %v", said)
	}
	switch {
	case l.CustomID == nil || *l.CustomID == "":
		return wrong(lineNoParameter, "custom_id", "custom_id is missing; it must be a name that no other line of the file has")
	case len(*l.CustomID) > maxCustomIDBytes:
		return wrong(lineWrongValue, "custom_id", "custom_id has %d bytes; it may have %d", len(*l.CustomID), maxCustomIDBytes)
	case l.Method == nil || *l.Method != "POST":
		return wrong(lineWrongMethod, "method", "method is %s; it must be POST", shown(l.Method))
	case l.URL == nil || *l.URL != endpoint:
		return wrong(lineWrongURL, "url", "url is %s; it must be the batch's endpoint, %s", shown(l.URL), endpoint)
	case len(l.Body) == 0 || l.Body[0] != '{':
		return wrong(lineWrongValue, "body", "body is %.40q; it must be a JSON object", string(l.Body))
	}
	var b struct {
		Model  *string         `json:"model"`
		Stream json.RawMessage `json:"stream"`
	}
	if err := json.Unmarshal(l.Body, &b); err != nil {
		return wrong(lineWrongType, "body.model", "body: %v", jsonfault.Describe(err, l.Body))
	}
	if len(b.Stream) > 0 && string(b.Stream) != "false" && string(b.Stream) != "null" {
		return wrong(lineWrongValue, "body.stream", "stream is %.20q; answers of a batch are whole, leave it out", string(b.Stream))
	}
	read := line{customID: *l.CustomID, body: l.Body}
	if &text[0] != &whole[0] {
		read.body = bodyAt(text, whole)
	}
	if b.Model != nil {
		read.model = *b.Model
	}
	return read, nil
}

// bodyAt is the field body of a line with the bytes of whole, in which it stands at the same place.
func bodyAt(text, whole []byte) (body []byte) {
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		var name json.Token
		if name, err = d.Token(); err != nil {
			break
		}
		var value json.RawMessage
		err = d.Decode(&value)
		if end := int(d.InputOffset()); err == nil && strings.EqualFold(name.(string), "body") {
			body = whole[end-len(value) : end]
		}
	}
	return body
}

// nameOf is the custom_id of a line that is no JSON because of NaN or Infinity; "" where it cannot be told.
func nameOf(text []byte) string {
	var l struct {
		CustomID string `json:"custom_id"`
	}
	if json.Unmarshal(jsonfault.WithoutNoNumbers(text), &l) != nil || len(l.CustomID) > maxCustomIDBytes {
		return ""
	}
	return l.CustomID
}

func shown(s *string) string {
	if s == nil {
		return "missing"
	}
	return fmt.Sprintf("%.80q", strings.ToValidUTF8(*s, "\ufffd"))
}
