package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Authorize sends a key of Bedrock's own as a bearer token. Without one it signs the request (SigV4) with the credentials that Amazon's own
// tools would take from the environment or from their file; these are read for each request, since they change.
func (bedrock) Authorize(req *http.Request, key string, body []byte) error {
	if key = cmp.Or(key, os.Getenv("AWS_BEARER_TOKEN_BEDROCK")); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
		return nil
	}
	region, err := regionOf(req.URL.Hostname())
	if err != nil {
		return err
	}
	credentials, err := amazonCredentials(os.Getenv)
	if err != nil {
		return err
	}
	return signAmazon(req, credentials, region, body, time.Now())
}

func (bedrock) Secrets(key string) []string {
	if key = cmp.Or(key, os.Getenv("AWS_BEARER_TOKEN_BEDROCK")); key != "" {
		return []string{key}
	}
	c, err := amazonCredentials(os.Getenv)
	if err != nil {
		return nil // Authorize has told
	}
	return []string{c.SecretAccessKey, c.SessionToken}
}

func signAmazon(req *http.Request, c aws.Credentials, region string, body []byte, now time.Time) error {
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(context.Background(), c, req, hex.EncodeToString(sum[:]), "bedrock", region, now)
}

// regionOf is the region in the name of one of Bedrock's hosts: bedrock-runtime.eu-central-1.amazonaws.com. Other hosts, as those of
// private endpoints, have the region of the environment.
func regionOf(host string) (string, error) {
	labels := strings.Split(host, ".")
	for i, l := range labels {
		if strings.HasPrefix(l, "bedrock-runtime") && i+1 < len(labels) && strings.Contains(labels[i+1], "-") {
			return labels[i+1], nil
		}
	}
	if region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")); region != "" {
		return region, nil
	}
	return "", fmt.Errorf("the host %s names no region of Bedrock; give a URL like https://bedrock-runtime.eu-central-1.amazonaws.com, or set AWS_REGION", host)
}

// amazonCredentials are those of the environment, or of a profile in the credentials file.
func amazonCredentials(getenv func(string) string) (aws.Credentials, error) {
	c := aws.Credentials{AccessKeyID: getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: getenv("AWS_SESSION_TOKEN")}
	if c.HasKeys() {
		return c, nil
	}
	path, profile := getenv("AWS_SHARED_CREDENTIALS_FILE"), cmp.Or(getenv("AWS_PROFILE"), "default")
	if path == "" {
		path = filepath.Join(getenv("HOME"), ".aws", "credentials")
	}
	file, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("no credentials for Bedrock: set api_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a credentials file: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(file, maxCredentialsBytes))
	if err != nil {
		return c, fmt.Errorf("credentials for Bedrock: %w", err)
	}
	c = profileOf(data, profile)
	if !c.HasKeys() {
		return c, fmt.Errorf("credentials for Bedrock: %s has no aws_access_key_id and aws_secret_access_key for the profile %q", path, profile)
	}
	return c, nil
}

// maxCredentialsBytes of a credentials file are read.
const maxCredentialsBytes = 1 << 20

// profileOf reads a profile of a credentials file: sections in brackets, and names with values.
func profileOf(data []byte, profile string) (c aws.Credentials) {
	inside := false
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			inside = strings.TrimSpace(strings.TrimSuffix(name, "]")) == profile
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !inside || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "aws_access_key_id":
			c.AccessKeyID = value
		case "aws_secret_access_key":
			c.SecretAccessKey = value
		case "aws_session_token":
			c.SessionToken = value
		}
	}
	return c
}
