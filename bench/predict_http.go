package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// httpSender is one kept connection that writes requests made before, so that the
// generator takes as little of the machine as it can.
type httpSender struct {
	conn     net.Conn
	in       *bufio.Reader
	requests [][]byte
}

// httpDialer makes the requests of all connections, and connections.
func httpDialer(t *PredictTarget, l *PredictLoad, rows [][]float32) (func(context.Context) (sender, error), error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL of a server; it reads http://host:port", t.URL)
	}
	requests := make([][]byte, len(rows))
	for i := range rows {
		requests[i] = httpRequest(t, l, u.Host, rows[i])
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return func(ctx context.Context) (sender, error) {
		var conn net.Conn
		var err error
		if u.Scheme == "https" {
			conn, err = (&tls.Dialer{}).DialContext(ctx, "tcp", address)
		} else {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
		if err != nil {
			return nil, err
		}
		return &httpSender{conn, bufio.NewReader(conn), requests}, nil
	}, nil
}

// httpRequest is a whole request for one set of rows.
func httpRequest(t *PredictTarget, l *PredictLoad, host string, values []float32) []byte {
	path, kind, length, body := "/v2/models/"+t.Model+"/infer", "application/json", "", []byte(nil)
	switch l.Protocol {
	case PredictV1:
		path = "/v1/models/" + t.Model + ":predict"
		body = append(jsonRows([]byte(`{"instances":`), values, t.Columns), '}')
	case PredictV2:
		body = fmt.Appendf(nil, `{"inputs":[{"name":%q,"shape":[%d,%d],"datatype":"FP32","data":`, t.Input, l.Rows, t.Columns)
		body = append(jsonList(body, values), "}]}"...)
	case PredictBinary:
		kind = "application/octet-stream"
		body = fmt.Appendf(nil, `{"inputs":[{"name":%q,"shape":[%d,%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`,
			t.Input, l.Rows, t.Columns, 4*len(values))
		length = fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", len(body))
		body = append(body, rawFloats(values)...)
	}
	key := ""
	if t.APIKey != "" {
		key = "Authorization: Bearer " + t.APIKey + "\r\n"
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%s%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, host, key, length, kind, len(body))
	return append([]byte(head), body...)
}

// jsonRows is values as an array of rows.
func jsonRows(dst []byte, values []float32, columns int) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(values); i += columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonList(dst, values[i:i+columns])
	}
	return append(dst, ']')
}

func jsonList(dst []byte, values []float32) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(v), 'f', -1, 32)
	}
	return append(dst, ']')
}

func rawFloats(values []float32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

func (s *httpSender) close() { _ = s.conn.Close() }

func (s *httpSender) send(_ context.Context, i int) error {
	if _, err := s.conn.Write(s.requests[i]); err != nil {
		return err
	}
	line, err := s.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	ok := bytes.Contains(line, []byte(" 200 "))
	status := strings.TrimSpace(string(line))
	length := -1
	for {
		if line, err = s.in.ReadSlice('\n'); err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("%s: the answer has no Content-Length", status)
	}
	if ok {
		_, err = s.in.Discard(length)
		return err
	}
	text, err := io.ReadAll(io.LimitReader(s.in, int64(length)))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %.200s", status, text)
}
