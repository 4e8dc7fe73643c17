# bash completion of kubectl-mc, also under the name kmc

__kubectl_mc() {
    local cur words cword
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n "=:" cur words cword
    else
        # bash makes --flag=value three words.
        local word index glue=
        words=()
        cword=-1
        for ((index = 0; index <= COMP_CWORD; index++)); do
            word=${COMP_WORDS[index]}
            if [[ $glue || ($word == = && $cword -ge 0 && ${words[cword]} == --*) ]]; then
                words[cword]+=$word
                if [[ $glue ]]; then glue=; else glue=1; fi
            else
                words[++cword]=$word
            fi
        done
        cur=${words[cword]}
    fi

    local out
    out=$(kubectl-mc __complete "${words[@]:1:cword-1}" "$cur" 2>/dev/null) || return
    local directive=${out##*:}
    out=${out%:*}

    # bash replaces only what follows the = of --flag=value.
    local typed=$cur
    if [[ $cur == --*=* && $COMP_WORDBREAKS == *=* ]]; then typed=${cur#*=}; fi
    local line word
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        if [[ $word == --*=* && $cur == --*=* && $word == "$cur"* ]]; then word=${word#*=}; fi
        [[ -n $word && $word == "$typed"* ]] || continue
        # Quoted where bash would read it otherwise, as in the name of a context.
        if [[ $word == *[!A-Za-z0-9.,:=@/_+%-]* ]]; then word=$(printf %q "$word"); fi
        COMPREPLY+=("$word")
    done <<<"$out"

    if ((directive & 2)); then compopt -o nospace; fi
    if [[ ${#COMPREPLY[@]} -eq 0 ]] && ! ((directive & 4)); then compopt -o default; fi
    if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$typed"; fi
}

complete -F __kubectl_mc kubectl-mc kmc
