# fish completion of kubectl-mc, also under the name kmc

function __kubectl_mc_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l lines (kubectl-mc __complete $words[2..-1] "$typed" 2>/dev/null)
    or return
    set -l directive (string replace ':' '' -- $lines[-1])
    set -l lines $lines[1..-2]
    # fish replaces the whole word, of which a candidate is the value alone.
    set -l before (string match -r -- '^--[^=]*=' $typed)
    if test (count $lines) -gt 0
        for line in $lines
            if string match -q -- "$before*" $line; and test -n "$before"
                echo $line
            else
                echo "$before$line"
            end
        end
    else if test (math "bitand($directive, 4)") -eq 0
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' $typed)
    end
end

for program in kubectl-mc kmc
    complete -c $program -f -a '(__kubectl_mc_complete)'
end
