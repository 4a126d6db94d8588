package predict

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"weir/api"
)

// decoded is the request's body without its gzip or deflate, within the bound of bodies.
func (c *call) decoded(coding string) ([]byte, *api.Error) {
	body := c.Ctx.Request.Body()
	var r io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "identity":
		return body, nil
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(body))
	default:
		return nil, api.Refuse("unsupported_media_type", fmt.Sprintf("the content coding %s is not supported; send gzip, deflate or none", quote(coding)))
	}
	if err != nil {
		return nil, badCoding(coding, err)
	}
	plain, fault := api.ReadDecoded(c.Ctx, r, c.config.MaxRequestBytes)
	if fault == nil {
		return plain, nil
	}
	return nil, fault
}

func badCoding(coding string, err error) *api.Error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return api.Refuse("malformed_request", fmt.Sprintf("the body is no %s: %v", coding, err))
}
