import { type SearchHit, useSearch } from "../api/search";
import { Badge, Empty, ErrorPanel, Loading, StateName, Title } from "../components/basics";
import { Id } from "../components/id";
import { RelativeTime } from "../components/time";
import { useT } from "../i18n/i18n";
import { Link, toJob, useAddress, useTitle } from "../routing";

export function SearchPage() {
  const t = useT();
  const text = useAddress().query.get("text") ?? "";
  const results = useSearch(text);
  useTitle(text ? `“${text}”` : t("search.title"));
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title>
        {t("search.title")} {text && <span className="font-normal text-muted">“{text}”</span>}
      </Title>
      {text === "" && <Empty>{t("search.start")}</Empty>}
      {text !== "" && results.isPending && <Loading />}
      {results.error && <ErrorPanel error={results.error} retry={() => void results.refetch()} />}
      {results.data?.hits.length === 0 && (
        <Empty>{t(results.data.complete ? "search.none" : "search.noneIncomplete", { text })}</Empty>
      )}
      {results.data && results.data.hits.length > 0 && (
        <div className="px-4 pb-10 md:px-6">
          {!results.data.complete && (
            <p className="mb-3 rounded-md bg-warn-soft px-4 py-2 text-warn">{t("search.incomplete")}</p>
          )}
          <ul className="panel">
            {results.data.hits.map((hit) => (
              <HitRow key={`${hit.queue} ${hit.job.id}`} hit={hit} />
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

function HitRow({ hit }: { hit: SearchHit }) {
  const t = useT();
  const { job } = hit;
  return (
    <li className="border-b border-line last:border-0">
      <Link
        data-focusable-row
        href={toJob(hit.queue, job.id)}
        className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 py-2 hover:bg-hover md:grid-cols-[minmax(0,1fr)_5rem_8rem_7rem]"
      >
        <span className="min-w-0">
          <span className="flex items-baseline gap-2">
            <Id className="text-xs font-medium">{job.id}</Id>
            <span className="shrink-[9] truncate text-muted">
              {hit.queue} / {job.kind}
            </span>
          </span>
          <span className="block truncate font-mono text-xs text-muted">{job.error ?? job.preview}</span>
        </span>
        <span className="max-md:hidden">
          <Badge tone="plain">{t(`search.by.${hit.by as "id"}`)}</Badge>
        </span>
        <StateName state={job.state} />
        <span className="text-right text-muted max-md:hidden">
          <RelativeTime at={job.created_at} />
        </span>
      </Link>
    </li>
  );
}
