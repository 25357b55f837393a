package bridge

import (
	"regexp"
	"strings"
)

const scratchNote = "a new scratch notebook: it is blank, and lost with its tab unless the user saves a copy in Drive"

// Only these keys of a pasted link are kept, and only with a value of the right shape; any other may
// be a secret or an old token of ours.
var (
	accountValue     = regexp.MustCompile(`^([0-9]{1,2}|[A-Za-z0-9._+-]{1,64}(@|%40)[A-Za-z0-9.-]{1,190})$`)
	resourceKeyValue = regexp.MustCompile(`^[0-9]{1,3}-[A-Za-z0-9_-]{1,64}$`)
	fragmentValue    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

	// fragmentKeys are the page's own: a cell, a line in it, and how the notebook is shown.
	fragmentKeys = []string{"scrollTo", "line", "uniqifier", "forceEdit", "sandboxMode"}
	// createKeys go with create=true: the kernel's language and the Drive folder.
	createKeys = []string{"language", "folderId"}
)

// colabLink accepts Colab's own links, on both of its hosts.
func colabLink(p pastedLink) (Link, error) {
	var l Link
	var err error
	switch {
	case len(p.segs) == 0 && pairValue(p.fragment, "create") == "true":
		l = Link{path: "/", note: createNote}
		l.fragment = "create=true"
		if more := keepPairs(p.fragment, createKeys); more != "" {
			l.fragment += "&" + more
		}
		l.query = accountQuery(p)
		return l, nil
	case len(p.segs) == 2 && p.segs[0] == "drive":
		l, err = driveNotebook(p, p.segs[1], "")
	case len(p.segs) >= 2 && p.segs[0] == "notebooks" && isNotebookName(p.segs[len(p.segs)-1]):
		l = Link{path: "/" + strings.Join(p.segs, "/"), query: accountQuery(p)}
		if l.Scratch() {
			l.note = scratchNote
		}
	case len(p.segs) > 0 && p.segs[0] == "github":
		l, err = githubNotebook(p.segs[1:])
		l.query = accountQuery(p)
	case len(p.segs) > 0 && p.segs[0] == "gist":
		l, err = gistNotebook(p.segs[1:])
		l.query = accountQuery(p)
	default:
		return Link{}, refuseLink("it is a Colab page, and no notebook", "open the notebook in Colab and copy its link")
	}
	if err != nil {
		return Link{}, err
	}
	l.fragment = keepPairs(p.fragment, fragmentKeys)
	return l, nil
}

const createNote = "a new notebook is made in the user's Drive at every opening"

// colabNewLink is Google's short link for a new notebook in Drive.
func colabNewLink(p pastedLink) (Link, error) {
	if len(p.segs) > 0 {
		return Link{}, refuseLink("colab.new has nothing below it", "give https://colab.new")
	}
	return Link{path: "/", fragment: "create=true", note: createNote}, nil
}

// accountQuery keeps the account the link names. None is ever added: it is the user's browser that
// knows which one is the default.
func accountQuery(p pastedLink) string {
	if v := pairValue(p.query, "authuser"); accountValue.MatchString(v) {
		return "authuser=" + v
	}
	return ""
}

func keepPairs(pairs string, keys []string) string {
	var kept []string
	for _, key := range keys {
		if v := pairValue(pairs, key); fragmentValue.MatchString(v) {
			kept = append(kept, key+"="+v)
		}
	}
	return strings.Join(kept, "&")
}

// isNotebookName is on the escaped name.
func isNotebookName(name string) bool {
	return len(name) > len(".ipynb") && strings.HasSuffix(name, ".ipynb")
}
