#compdef kubectl-mc kmc
# zsh completion of kubectl-mc, also under the name kmc

_kubectl_mc() {
    local out line word about directive
    local -a candidates options
    out=$(kubectl-mc __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null) || return 1
    directive=${out##*:}
    for line in "${(@f)out%:*}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\t'*}
        about=${line#$word}
        candidates+=("${word//:/\\:}:${about#$'\t'}")
    done
    # The candidates are values alone.
    if [[ $PREFIX == --*=* ]]; then compset -P 1 '*='; fi
    if ((directive & 2)); then options=(-S ''); fi
    if (($#candidates)); then
        _describe -V completions candidates "${options[@]}"
    elif ! ((directive & 4)); then
        _files
    else
        return 1
    fi
}

if [[ $funcstack[1] == _kubectl_mc ]]; then
    _kubectl_mc "$@"
else
    compdef _kubectl_mc kubectl-mc kmc
fi
