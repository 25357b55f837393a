package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// model is a stand-in for the Gemini API on loopback, of which the test plays
// the model: an agent's program asks, the test replies. See
// https://ai.google.dev/api/generate-content for the bodies.
type model struct {
	URL   string
	asked chan *question
	end   chan struct{} // closed when the test is over and nobody replies any more
}

// question is one request for the model's next words.
type question struct {
	Body     []byte
	Contents []struct{ Parts []part }
	Tools    []struct {
		Declarations []declaration `json:"functionDeclarations"`
	}
	reply chan part
}

// declaration is a tool as a model is told of it.
type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      map[string]any `json:"parametersJsonSchema"`
}

// part is a piece of what either side says; one field is set.
type part struct {
	Text   string            `json:"text,omitempty"`
	Call   *functionCall     `json:"functionCall,omitempty"`
	Result *functionResponse `json:"functionResponse,omitempty"`
	Inline *blob             `json:"inlineData,omitempty"`
}

type functionCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args args   `json:"args"`
}

type functionResponse struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Response map[string]any `json:"response"`
}

type blob struct {
	Type string `json:"mimeType"`
	Data []byte `json:"data"` // base64 in JSON
}

func startModel(t testing.TB) *model {
	m := &model{asked: make(chan *question), end: make(chan struct{})}
	s := httptest.NewServer(m)
	m.URL = s.URL
	t.Cleanup(func() {
		close(m.end)
		s.CloseClientConnections()
		s.Close()
	})
	return m
}

// ServeHTTP hands a question to the test. What a program asks beside the
// conversation (counting tokens, a title) it can do without.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := &question{Body: body, reply: make(chan part, 1)}
	if !strings.HasSuffix(r.URL.Path, ":streamGenerateContent") || json.Unmarshal(body, q) != nil || len(q.Tools) == 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"code":404,"message":"this model only talks","status":"NOT_FOUND"}}`)
		return
	}
	var said part
	select {
	case m.asked <- q:
	case <-m.end:
		return
	}
	select {
	case said = <-q.reply:
	case <-m.end:
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event, err := json.Marshal(map[string]any{
		"candidates": []any{map[string]any{
			"index": 0, "finishReason": "STOP",
			"content": map[string]any{"role": "model", "parts": []part{said}},
		}},
		"usageMetadata": map[string]int{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
		"modelVersion":  "stand-in",
	})
	if err != nil {
		event = fmt.Append(nil, `{"error":`, err, `}`)
	}
	fmt.Fprintf(w, "data: %s\n\n", event)
}

// last are the parts said last, for which the model shall find an answer.
func (q *question) last() []part {
	if len(q.Contents) == 0 {
		return nil
	}
	return q.Contents[len(q.Contents)-1].Parts
}

// declarations are the tools of one MCP server that the model may call.
func (q *question) declarations(prefix string) map[string]declaration {
	of := map[string]declaration{}
	for _, t := range q.Tools {
		for _, d := range t.Declarations {
			if name, ok := strings.CutPrefix(d.Name, prefix); ok {
				of[name] = d
			}
		}
	}
	return of
}
